"""Func -> Python source that runs it, one function per segment."""
