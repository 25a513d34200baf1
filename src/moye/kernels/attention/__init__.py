"""Attention: softmax(Q K^T) V of many heads, without the scores in memory."""
