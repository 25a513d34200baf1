"""Matrix products on Hopper's warpgroup instructions, fed by TMA.

Read it top down:

    host       what a launch is: arguments checked, a configuration chosen, TMA copies made
    choice     which configuration a product gets without a search
    config     the configurations, and a model of what each costs
    plan       what the kernel is specialised on: how A and B come in, how they are multiplied, how C goes out
    kernel     the roles of a block: a warp that loads, warpgroups that multiply
    epilogue   a warpgroup's sums on their way to C, piece by piece
    fusion     what is done to a piece on that way: factors, addends, an activation
"""
