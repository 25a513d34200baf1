"""Matrix products on Hopper's warpgroup instructions, fed by TMA."""
