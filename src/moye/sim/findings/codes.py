"""The defect classes that moye reports, in one table: code, when it is found, title, sentences, clauses, hints.

In: nothing.  Out: ``CODES``, from code to title and to when the class is found; ``sentence``, ``clause`` and ``hint``,
the words of a finding, with fields for facts.  The names that MOYE_CHECK chooses from are in groups.py.

>>> CODES["D3"].title, hint("D3")
('waited for, but no block barrier before other threads read', 'sync_threads() after cp_async_wait()')

Which class a violation gets is decided where it is found; where classes overlap the most specific wins.  What a field
may say of its fact is in wording.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from moye.sim.findings.shared_words import SHARED


@dataclass(frozen=True, slots=True)
class Code:
    """One class: ``when`` holds T (while tracing), L (at launch), S (in the simulator), P (a lint, never fails)."""

    code: str
    title: str
    when: str


# A row begins with a code.  Below it are, by the name of the case (-: any other), its sentences; with = clauses, which
# sentences of the class may use; with > hints, what would mend it.  * is for those of all classes.  A line that is
# indented further goes on with the one above it.
_TABLE = """
A1   T     a tiled copy writes one destination element from two threads
A2   T     a thread/value layout leaves part of the tile uncopied
A3   T     a view reaches past its allocation
A4   T/L   a tile does not divide an extent and the access is not predicated
A5   T     source and destination partitioned by different tiled copies
A6   S     written through one swizzle, read through another
A7   T     a swizzled tile at an offset that its swizzle span does not divide
A8   T     accumulators of one MMA tiling stored with the partition of another
A9   T     operand major-ness and MMA atom disagree
A10  T     the block's threads differ from those of the tiled copy or MMA that it uses
A11  L/S   an integer that its dtype, or the index width in use, does not hold
  -          {who} computes {what} = {number}, which does not fit {bits} bits
  cast       {who} converts {name:an integer |{name} = }{number} from {source} to {result}, which does not fit 32 bits
  shift      {who} computes a {sign} b with b = {amount}: a shift by a negative count
  > int32      compute it in int64
  > narrow     compute it in 32 bits, as C++ does: an operand.to(mo.int32)
  > int64      mo.uint64 wraps, if that is what it is meant to do
  > counter    count in int64, from mo.int64(start), as a loop computes the step behind its last turn, too
  > counter64  let it end a step before: a loop computes the step behind its last turn, too
  > shl        compute it in {wider}, or in uint{bits} if bits may fall out
  > cast       compute with it in {source} first, and convert what is left
  > shift      test the count first
A12  L/S   an argument or a value that breaks what the kernel assumed, or a division by zero
  zero       division by zero: {who} computes a {sign} b with b = 0
  assert     {assumed:the assertion|the assumption} does not hold for {who}: {message}
  > zero       test the divisor first
B1   L/S   global access out of bounds
  -          {who} {written:reads|writes} {element}{op}, outside of {tensor} with layout {layout}
  run        {who} {written:reads|writes} {element}{op}, in a run of {bytes} bytes, outside of {tensor} with layout
        {layout}
  mapped     {who} {written:reads|writes} byte address {there:#x}{op}, behind the end of the array at {address:#x}, to
        which the tensor map gives extents {extents}
  unknown    {who} {written:reads|writes} by a tensor map of an array at {address:#x}{op}, and no array begins there
  index      {index_outside}
  view       {view_outside}
  > -          predicate the access, or pass an array whose extents are multiples of the tile
  > run        copy what is left: size=mo.min(tile, extent - start)
  > index      an index stays below the extent of its mode; view.with_layout(...) gives a view another shape
  > mapped     update_tensormap takes the shape and strides of the array
  > unknown    make addresses by mo.addresses(arrays), and keep what it returns
B2   T/S   shared access out of bounds of its own tensor
  -          {who} {written:reads|writes} element {offset} of {tensor}{there:| of block {there}}{op}, which has
        {elements} elements of {dtype}
  beyond     {who} {written:reads|writes} {element}{there:| of block {there}}{op}, outside of {tensor} with layout
        {layout}: {in_mode}
  box        {who} copies a box of {bytes} bytes at byte {start} of {tensor}{op}, and {tensor} has {size} bytes
  run        {who} copies a run of {bytes} bytes at byte {start} of {tensor}{op}, and {tensor} has {size} bytes
  long       {who} copies {bytes} bytes{op} of a run of {most}
  index      {index_outside}
  view       {view_outside}{staged:|: {in_mode}}
  > stage      take the stage modulo {depth}
  > count      keep the index below {depth}; where it counts stages, take it modulo {depth}
  > long       size= is at most the size of the tile
  > index      an index stays below the extent of its mode; view.with_layout(...) gives a view another shape
B3   T/S   vector access to an address that is not aligned to its width
  -          {unaligned}
  > -          make strides and offsets multiples of {size} bytes
B4   T/S   asynchronous copy whose source or destination is not aligned to its size
  -          {unaligned}
  box        {who} copies a box of {bytes} bytes at byte {start} of {tensor}{op}, which is no multiple of {size}
  > -          make strides and offsets multiples of {size} bytes
  > box
B5   T/L/S a tensor map, tile or run that breaks the rules of TMA and bulk copies
  size       {who} copies {bytes} bytes{op}, which is no multiple of {part}
  run        {who} copies a run{op} that begins at byte address {address:#x} of {tensor}, which is no multiple of
        {part}
  box        {who} copies a box{op} that begins {start} bytes from the beginning of a row of {tensor}, which is no
        multiple of {part}
  before     {who} writes a box{op} that begins at coordinate {start} of {tensor}, and one that TMA writes may reach
        past the end of a tensor, but not begin before it
  slot       {who} keeps a tensor map at byte {number} of {tensor}{op}, which is no multiple of {part}
  places     the lanes of a warp, thread {thread} of block {block} among them, release a tensor map to different places
        of {tensor}{op}
  address    {who} makes a tensor map of an array at {number:#x}{op}, which is no multiple of {part}
  extent     {who} makes a tensor map of an array with extent {number}{op}, and TMA takes 1 to 2^31 - 1
  stride     {who} makes a tensor map of an array with a stride of {number} bytes{op}, and TMA takes multiples of
        {part} below 2^40
  row        {who} writes by a tensor map of an array whose rows have {number} bytes{op}, and TMA writes whole parts of
        {part}: what lies behind each row is overwritten
  twice      {who} writes row {row} of {tensor} from two rows of shared memory at once{op}, and nothing says which
        of the two stays
  > run        make strides and offsets multiples of {part} bytes
  > box        tiles begin at multiples of {part} bytes along the contiguous mode
  > before     begin at 0, or leave out boxes that lie before the tensor
  > twice      name each row once; rows beyond the last are not written
B6   S     shared memory read before anything wrote it
  -          {here} is {done} by thread {actor}{op} before anything wrote it
  mbarrier   {here} is {done} by thread {actor}{op}, but it is an mbarrier since its initialisation{made}, and holds
        no data
  far        {here} is read before anything wrote it: {now}
  launch     {element} in global memory is read by {who}{op}, and nothing has written it: {tensor} holds nothing when
        the kernel starts
  > -          write or fill it first
  > mbarrier   keep data and mbarriers apart; mbarrier_wait looks at its phase
  > launch     write it first, or clear it before the launch
B7   T/S   register fragment used before it was set
  -          {who} uses {element}{op} before it was set{used_later}
  > -          set it first, for example with {tensor}.fill(0)
B8   S     a predicated-off copy leaves the previous tile's data, and it is used
  -          {element} keeps what an earlier run of this {copy:store|copy} left there, because its
        {alone:condition|predicate} is false for {who}, and the stale value is used: with another one in its place
        {output} changes
  > -          store a neutral value where the condition is false, or mask the read
  > alone      zero_fill=True
B9   S     shared memory reused while an asynchronous operation on it is in flight
  -          {in_flight}: {unwaited}
  far        {may_be_in_flight}: {why}
  engine     {phase_unwaited}
  filled     {filled}: phase {phase} of {engine}, which completes the copy{other} into it, was not waited for
  store      {not_stored}: {storer}, which stores it, has not waited for it
  source     {being_read}: thread {rival}, which issued it, has not waited for it
  load       {being_read}: nobody has waited for the mbarrier on which it completes
  > -          cp_async_wait() and then sync_threads() before the memory is used again
  > engine     wait for the mbarrier of the copy before the memory is used again
  > cluster    wait for the copy in its block, and then cluster_sync()
  > store      tma_store_wait(0, read=False) before it is written again
  > source     cp_async_wait() in the thread that copies, and then a barrier, before it is written
  > load       mbarrier_wait for the copy before its source is written
B10  T/L   shared memory beyond the device's limit
B11  S     a stale view used after its buffer was given to another tensor
  -          {here} is {done} by thread {actor}{op}, but {tensor} was allocated again{allocated} and nothing has
        written it since {then}
  far        {here} is read before anything wrote it since {tensor} was allocated again{allocated}: {now}
  > -          allocate it before the loop to keep its contents, or write it first in each iteration
  > cluster    allocate it before the loop, or write it first in each iteration
C1   S     another thread's shared write with no barrier in between
  read       {read_early}
  write      {written_twice}
  twice      {here} is written by threads {rival} and {actor} in one statement{op}: nothing orders the two
  far_twice  {here} is written in one statement by two threads: nothing orders {then} and {now}
  global     {after_write}
  one_global {accessed} and by thread {rival} in one statement: two writes that nothing orders
  > -          sync_threads() between the two
  > roles      a barrier that both roles come to: the writers arrive at it (barrier_arrive or mbarrier_arrive) and the
        readers wait there
  > cluster    cluster_sync() between the two
  > twice      let one thread write each element
C2   S     overwritten while other threads may still be reading
  over       {overwritten}: {missing}
  overtaken  {overwritten}: no {barrier} between {now} and the next write by thread {rival}{other}
  global_over {before_write}
  load       {being_read}: no barrier lies between a wait for the copy and thread {actor}
  late       {taken_back}
  own        {taken_again}
  reset      {set_back}
  > -          sync_threads() between the reads and the next write
  > roles      a second barrier, "empty": the readers arrive there after the read, and the writers wait there before
        they write again
  > cluster    cluster_sync() between the two
  > inside     sync_threads() between the two
  > atomic     sync_threads() between the two; where an older value will do, mo.load(x, i, order="relaxed") may meet
        atomics
  > late       let one thread store it, or order all who do before the signal
  > own        say that it waits by a release, which who answers acquires
  > reset      order all who draw before it: by the atomic that says who is last, with order="acq_rel"
C3   S     exchange within a warp through shared memory without sync_warp
  read       {read_early}
  write      {written_twice}
  over       {overwritten}: {missing}
  overtaken  {overwritten}: no {barrier} between {now} and the next write by thread {rival}{other}
  = barrier    sync_warp among the lanes of warp {warp}
  global     {after_write}
  global_over {before_write}
  = no_barrier both are lanes of warp {warp}, and there is no sync_warp
  > -          sync_warp() between the two
  > atomic     sync_warp() between the two; where an older value will do, mo.load(x, i, order="relaxed") may meet
        atomics
C4   S     a barrier that only part of the block's threads reaches
  points     {two_barriers}
  past       {gone_past}
  passes     the threads of block {block} meet at {name}{op} in different passes of the loop{loop}: {few} in
        pass {least} and {many} in pass {most}
  cluster    {here} of block {block} {here:waits|wait} at the cluster's barrier{op} (arrived{arrival}), which {left}
  turn       {who} {waits:arrives|waits} at the cluster's barrier{op}, and has not {waits:waited since it arrived
        before|arrived there{before:| since it waited last}}
  > -          let every thread of the block reach sync_threads, or use barrier_sync(id, count) among some of them
  > points     move sync_threads out of the condition
  > passes     let every thread reach it in every pass, or none
  > cluster    let every thread of every block of the cluster arrive at it
  > turn       each thread arrives once and waits once, in turn: cluster_arrive(), cluster_wait()
  > grid       let every thread of every block reach grid_sync, or none
C5   S     named barrier with a wrong count, or one id used by two groups
  groups     {late} of block {block} and {first} use {number:barrier 0, which is that of sync_threads,|named barrier
        1|named barrier {number}} in an order that nothing decides: no barrier between {first} passing it{before} and
        {late} arriving{op}
  alone      {late} of block {block} and {first} use named barrier {number} in an order that nothing decides: nobody
        waits where it opens{before}, and no barrier is between {first} arriving there and {late} arriving{op}
  part       only {here} of warp {warp} of block {block} {here:arrives|arrive} at named barrier {number}{op}, which
        counts whole warps
  number     {arrive_wrong}; barriers are 0 to {last}
  counts     {arrive_wrong} for {wanted} threads while others wait there for {expected}, as those do that came{before}
  many       {arrive_wrong} before it opens: {came} threads where {expected} are expected
  left       {here} of block {block} {here:arrives|arrive} at named barrier {number}{op}, and nobody waits there
        until the block ends: {came} of the {expected} threads that it counts have come
  opened     {here} of block {block} {here:arrives|arrive} at named barrier {number}{op}, and nobody waits where it
        opens
  > -          count the threads that arrive and those that wait at the barrier, and no others
  > left       leave the arrival out, or let who needs it wait there
  > opened     leave the arrival out, or let who needs it wait there
  > groups     give each group a named barrier of its own
  > alone      let somebody wait where it opens, or give each group a named barrier of its own
  > part       let the condition around it be the same for the whole warp
  > wrong      a named barrier for each group, with the number of its threads as the count
C6   T/S   a warp-collective operation reached by part of a warp
  past       {here} of block {block} {here:reaches|reach} {name}{op}, which {left}
  unnamed    {here} of block {block} {here:reaches|reach} {name}{op}, whose mask {mask:#x} does not name
        {here:it|them}
  masks      lanes of warp {warp} of block {block} meet at sync_warp with different masks: {one:#x}{op},
        {two:#x}{other}
  budget     {name}({registers}){op} is executed by threads {first}-{last} together, but only {here} of block {block}
        {here:executes|execute} it{often:| as often}
  group      {name}{op} is executed by threads {first}-{last} together, but only {here} of block {block} are here
  part       {name}{op} is an instruction of a whole warp, but only {here} of warp {warp} of block {block} execute it
  > -          let every lane of the mask reach it
  > unnamed    name every lane that reaches it in the mask
  > masks      all lanes that meet must name the same mask
  > budget     let all four warps of the warp group reach it
  > group      let the condition around it be the same for all of them
  > part       let the condition around it be the same for the whole warp
C7   S     a shuffle that reads an inactive lane
  -          {who} reads lane {lane}, {why}, in the shuffle{op}{used_later}
  mask       {who} is not in its own mask {mask:#x} in the shuffle{op}
  > -          let every lane that is read reach the shuffle, and name it in the mask
D1   S     data of an asynchronous copy read before any wait
  -          {in_flight}: {unwaited}
  far        {may_be_in_flight}: {why}
  store      {not_stored}: {storer}, which stores it, has not waited for it
  > -          cp_async_wait() and then sync_threads() before the read
  > cluster    cp_async_wait() and then cluster_sync() before the read
  > store      tma_store_wait(0, read=False) in the thread that stores, then a barrier
D2   S     a wait_group that leaves the needed group in flight
  -          {may_be_in_flight}: {too_few}
  open       {may_be_in_flight}: no cp_async_commit() between {then} and the last wait before {now}, {waited}, and a
        wait with a count covers committed copies only
  tail       {may_be_in_flight}: {too_few}; {trips:|iteration {trips} lacks its commit: }no cp_async_commit() since
        the wait before it{before}
  = too_few    the last wait between {then} and {now}, {waited}, leaves the {pending:newest group|{pending} newest
        groups} in flight, and {newer:none was|only one was|only {newer} were} committed after that of the copy
  > -          cp_async_wait({newer})
  > open       cp_async_commit() after the copies, or cp_async_wait()
  > tail       cp_async_commit() in each iteration, an empty group where nothing is left to copy
D3   S     waited for, but no block barrier before other threads read
  one_global {accessed} and by thread {rival} in one statement: two writes that nothing orders
  -          {here} may be {done} before {then} has arrived: no barrier between the wait of thread {rival}{wait} and
        {now}
  global     {after_write}
  > -          sync_threads() after cp_async_wait()
  > store      sync_threads() after tma_store_wait(0, read=False)
  > twice      let one thread write each element
D4   S     prefetch into a stage that is still being read
  read       {in_flight}: {then} overwrites what an earlier copy had brought and nobody had read
  over       {overwritten}: {missing}
  > -          sync_threads() between the last read of the stage and the copy that refills it
  > read       copy into a stage that has been read, after a sync_threads() that follows the reads
D5   S     commits left out in the tail, so that wait counts mean older groups
D6   S     TMA tile read before its mbarrier wait
  -          {phase_unwaited}
  far        {may_be_in_flight}: {why}
  unfilled   {here} is {done} by thread {actor}{op} without a wait for {full}, which the copy{copy} completes
  > -          mbarrier_wait(barrier, stage, phase) before the tile is read
  > cluster    mbarrier_wait(barrier, stage, phase) and then cluster_sync() before the read
D7   S     an mbarrier expects too few or too many bytes
  -          phase {phase} of {element} of block {block} is complete before the copy{op} has brought its {bytes}
        bytes: fewer were expected than copies bring
  > -          expect the bytes that the copies of one phase bring, no more and no less
  range      {who} expects {value} bytes at {element}{op}, which counts {least} to {most} of a phase
  late       {who} expects bytes at {mbarrier}{op} for phase {phase}, and nothing orders that before the arrival of
        thread {rival}: the phase may be over before
  > early      expect the bytes of all copies that complete on the barrier in one phase
  > late       let the thread that arrives expect them (mbarrier_arrive_expect_tx), or order the two
D8   S     wrong phase of an mbarrier
  -          {here} is {done} by thread {actor}{op}, but the copy{other} completes phase {phase} of {engine}, and the
        wait{wait} passes because {passed}
  unfilled   {here} is {done} by thread {actor}{op} before the copy{copy} fills it: the wait{wait} passes because
        {passed}
  unreleased {head}{op}, but nobody has released it since it was filled before: the wait{wait} for {empty} passes
        because {passed}
  > -          flip the parity each time the ring of stages wraps around
  mixed      {who} arrives at {mbarrier}{op} in phase {phase}, and nothing orders that after the end of phase {last}:
        it may count there{alone:|, in place of thread {rival}}
  missed     {who} waits for parity {value} of {mbarrier}{op}, and may come too late: after the end of phase {phase}
  early      {who} waits for the end of phase {phase} of {mbarrier}{op}, and nothing orders that after the end of phase
        {last}: before, it would go on at once
  parity     {who} waits for parity {value} of {element}{op}: a phase has parity 0 or 1
  > deadlock   wait for the parity of each phase in turn, 0 first, or 1 where the first phase is free
  > parity     the parity of phase n is n % 2
  > missed     let it arrive after the wait, or tell who does: an arrival of phase {phase} must be ordered after it
  > early      let it wait for each phase in turn, parities 0, 1, 0 and so on, or be told that phase {last} is over
  > mixed      let it wait for a phase before it arrives in the next: mbarrier_wait(barrier, stage, parity)
D9   S     wrong arrival count of an mbarrier
  -          {element} of block {block} counts {arrivals} arrival{arrivals:|s} a phase, but {came} come in phase
        {phase}, the last by {last}{op}
  range      {who} initialises {element}{op} with {value} arrivals, and a phase counts {least} to {most}
  > -          initialise the mbarrier with the number of arrivals that come in each phase
  > many       initialise it with as many arrivals as threads arrive, or let one thread arrive; a pipeline goes on by
        state = state.next()
D10  S     mbarrier initialisation not made visible before use
  unmade     {who} uses {mbarrier}{op} before it is initialised
  unfenced   the copy{op} of block {block} completes on {mbarrier}{away:| of block {owner}}, whose
        initialisation{before} is not fenced{away:| there}
  -          {who} uses {mbarrier}{op} with no barrier since thread {rival} initialised it{before}
  cluster    {who} uses {mbarrier} of block {owner}{op} with no barrier of the cluster since thread {rival} of that
        block initialised it{before}
  > -          fence_mbarrier_init() and then sync_threads() after mbarrier_init
  > cluster    fence_mbarrier_init() and then cluster_sync() after mbarrier_init
D11  S     a barrier object overwritten or invalidated while in use
  waited     {mbarrier} of block {block} is initialised again by thread {thread}{op}, with no barrier since thread
        {rival} waits for it{before}: it may be waiting still
  arrived    {mbarrier} of block {block} is initialised again by thread {thread}{op}, with no barrier since thread
        {rival} arrived there{before}: the arrival may be lost, or count in the next
  busy       {element} of block {owner} is initialised again{op} while its phase {phase} is under way: {state}
  data       {who} writes to {element}{op}, which is an mbarrier since its initialisation{made}
  > -          initialise it once, before the loop, or after a sync_threads()
  > busy       initialise it once, before the loop, and wait for the parity of each phase in turn
  > data       only the operations of mbarriers may touch it; its phases need no reset
D12  S     generic write, then asynchronous read without a proxy fence
  -          {unseen}, which may not see the write: {why}
  global     {through_proxy}
  > -          fence_proxy_async() in the threads that write, then a barrier, then the asynchronous read
  > global     fence_proxy_async() in the threads that write, before the barrier or the flag that orders the two
D13  S     generic read, then asynchronous overwrite without the ordering it needs
  -          {here} may be overwritten by the copy{op} while it is still being read: nothing orders the read by thread
        {rival}{other} before thread {actor} issues it
  filled     {filled}: no barrier between the write by thread {rival}{other} and the copy
  proxy      {unseen}, and the write may still come after it: {why}
  write      {here} may be filled too early: {missing}
  over       {overwritten}: {missing}
  = missing    nothing orders {then} before {now}
  global     {through_proxy}
  > -          let the readers arrive at an mbarrier that the thread which copies waits for; one lane for its warp after
        sync_warp()
  > proxy      fence_proxy_async() in the threads that write, then a barrier, then the copy
  > cluster    let the readers arrive at an mbarrier of the block that copies (cta=), for which its thread waits
  > global     fence_proxy_async() in the threads that write, before the barrier or the flag that orders the two
D14  S     the proxy fence is executed by a thread other than the writer
  -          {unseen}, {over:which may not see the write|and the write may still come after it}: only other threads
        have fenced since thread {writer} wrote it{other}
  global     {through_proxy}
  > -          fence_proxy_async() in the threads that write, before the barrier
  > global     fence_proxy_async() in the threads that write, before the barrier or the flag that orders the two
D15  S     source of a TMA store refilled before the store has read it
  -          {store_reads}: {writing} by thread {actor} is not ordered after a wait of {engine}, which issued it
  early      {store_reads}: the last wait of {engine}, which issued it,{wait}, leaves {committed:it in flight: no
        tma_store_arrive() lies between the store and the wait|the group of the store in flight}
  sent       {here} is overwritten{op} while the copy{other} may still read it: {writing} by thread {actor} is not
        ordered after a wait for {engine}, on which the copy completes
  far        {here} is overwritten while the {sent:store{other} of|copy{other} that completes on} {engine} may still
        read it: {now} is not ordered after a wait of that block for it
  > -          tma_store_wait(0, read=True) and then a barrier before the source is written again
  > sent       mbarrier_wait in the block that receives, and then cluster_sync() or mbarrier_arrive(bars, i, cta=)
  > cluster    tma_store_wait(0, read=True) and then cluster_sync() before the source is written
D16  S     a bulk group waited on by a thread that did not issue it
  -          {store_reads}: the wait{wait} is by {strangers}, and only {engine}, which issued it, can wait for it
  > -          let the thread that stores wait, and then a barrier
D17  S     waiting for the read where completion of the write is needed
  -          {not_stored}: the wait{wait} of {storer} is over as soon as the store has read its source
  > -          tma_store_wait(0, read=False), which waits until what is stored has been written
D18  S     a block's shared memory used outside of its life, by asynchronous operations or other blocks
  -          block {owner} may end before {now} of {element} in its shared memory: no barrier of the cluster between
        the two
  arrival    block {block} may end before the arrival by thread {thread} of block {by}{op} at its {mbarrier}: no
        wait for that phase and no barrier of the cluster, whose arrival is not relaxed, between the two
  early      block {owner} may start after {now} of {element} in its shared memory: no barrier of the cluster before
        it
  sent       block {block} ends while the copy{op} may still read {tensor} in its shared memory
  load       block {block} ends while the copy{op} has not arrived: nobody waits for its mbarrier
  store      block {block} ends while the copy{op} may not have read its source: thread {thread} does not wait for it
  products   block {block} ends while the wgmma{op} of warpgroup {group} is in flight
  > -          cluster_sync() before the kernel ends
  > arrival    wait for the phase in block {block}, as producer_tail does, or cluster_sync() before the kernel ends
  > early      cluster_sync() before the first access to another block
  > sent       mbarrier_wait in the block that receives, and then a barrier of the cluster before the kernel ends
  > load       wait for the mbarrier before the block ends
  > store      tma_store_arrive() and tma_store_wait(0) in the thread that stores
  > products   warpgroup_commit_batch() and warpgroup_wait(0)
D19  S     an operation of block scope used between blocks
  read       {read_early}
  write      {written_twice}
  over       {overwritten}: {missing}
  = missing    {fence:sync_threads|the fence}{scope} between {then} and {now} orders the threads of one block alone
  -          {both}, and {ends}
  atomics    {here} is accessed atomically by thread {rival} of block {of}{other} and by thread {actor} of block
        {by}{op}: nothing orders the two, and {ends}
  = ends       the scope of one of the two ends at its block
  > -          scope="gpu"
  > atomics    scope="cluster", or cluster_sync() between the two
  > cluster    cluster_sync() between the two
D20  T/S   wrong multicast mask or remote rank
  rank       {who} addresses block {rank}{op} of its cluster of {size}
  > -          multicast= is a mask of ranks in the cluster: name every block that waits for the bytes
  > rank
D21  S     a single-thread operation issued by a whole warp
  -          the copy of one {what}{op} is issued by {here} of block {block}, once by each
  > -          let one thread issue it: if elect()
D22  S     a tensor map that the kernel keeps, used or changed out of order
  unacquired {by_map}, and its block has no acquire_tensormap() of it after its release{other}
  old        {by_map}, and its block has no acquire_tensormap() of it
  apart      {by_map}, and nothing orders that after the acquire_tensormap() by another thread of its block
  early      {who} acquires a tensor map in {tensor}{op}, and nothing orders that after its release{other} by thread
        {rival} of block {of}
  stored     {by_map}, which something has changed since its release{other}
  none       {by_map}, and there is none like that of {label}: none was released there, or one of another copy
  flying     {who} releases a tensor map to {tensor}{op} while the copy{other} by thread {rival} of block {of} may still
        go by the one that was there
  = by_map     {who} copies by a tensor map in {tensor}{op}
  > -          acquire_tensormap(slot) after the release, in each block that copies; a barrier before other threads copy
  > early      a barrier between the two, or a release and an acquire of a flag
  > flying     before it, wait for the mbarriers of loads, or tma_store_arrive() and tma_store_wait(0) in the thread
        that copied
  > stored     release_tensormap alone changes it
  > none       copy_tensormap, update_tensormap, sync_warp, release_tensormap, acquire_tensormap, in this order
E1   S     wgmma accumulators touched without the fence
  -          the wgmma{op} of {who} uses {tensor} with no warpgroup_arrive() since its registers were touched
  > -          warpgroup_arrive() before the first wgmma and after any other access
E2   S     wgmma accumulators read before the wait
  -          {tensor} is {written:read|written}{op} by {who} while the wgmma{other} that adds to it is in flight
  > -          warpgroup_wait(0) first
E3   S     wgmma operand tile overwritten or released before the wait
  -          {product_reads}
  beside     {product_reads}
  released   {product_reads}: thread {releaser} releases the stage{arrival} before one
  far        {here} is overwritten while the wgmma{other} of {engine} may still read it: {now} is not ordered after a
        wait of that block for it
  > -          warpgroup_wait(0) before the stage is released
  > beside     warpgroup_wait(0) by {engine}, and then a barrier before the operand is written
  > cluster    warpgroup_wait(0) and then cluster_sync() before the operand is written
E4   S     wgmma register operand changed in flight
  -          {tensor} is {written:read|written}{op} by {who} while the wgmma{other} that reads it is in flight
  > -          warpgroup_wait(0) first
E5   S     wrong accumulate flag on the first k
  -          the wgmma{op} of {who} adds to {tensor}, which was not set
  > -          accumulate=False for the first k, or fill(0)
E6   T/S   wgmma by anything but a full, aligned warpgroup
  part       {name}{op} is executed by threads {first}-{last} together, but only {here} of block {block} {here:is|are}
        here
  > -          let all 128 threads of the warpgroup reach it
  > part       let whole warpgroups, threads 128 w to 128 w + 127, execute it
F1   S     pipeline stage used before acquire or after release
  -          {here} is read by the wgmma{other} of {engine} after {released}, for which thread {actor} waits before it
        fills the stage again{op}
  release    {head}{op}, but thread {releaser} has released it{arrival} with no wait for the tile that was there
  acquire    {head}{op}, but nobody has waited for {empty}, where it is released, since it was filled before
  early      {here} is read by thread {rival}{other} after {released}, for which thread {actor} waits before it fills
        the stage again{op}
  late       {here} is {done} by thread {actor}{op} after {released}, and the copy{other} may have overwritten it
  > -          arrive at the barrier after the warpgroup_wait for the products that read the stage
  > release    arrive at the barrier after the last read of the stage
  > acquire    let the thread that fills a stage wait for the barrier at which its readers arrive
  > deadlock   let those who arrive wait first for a barrier at which the others arrive once they are through
  > early      arrive at the barrier after the last read of the stage
  > late       arrive at the barrier after the last read of the stage
F2   S     fewer k-tiles than stages
  -          block {block} fills all {stages} stages of {tensor}{op}, and has {tiles} k-tile{tiles:|s}: nobody waits
        for {rest}, and the block ends while copies into the stage{left:|s} are under way
  > -          fill as many stages as there are k-tiles, if these are fewer
F3   S     producer and consumer trip counts differ
  > -          let both sides go through equally many phases of each barrier
F4   S     cyclic wait
  endless    {here} of block {block} {here:goes|go} on with the loop{op} {why}
  round      {here} of block {block} {here:goes|go} on with the loop{op} for ever: in {looks} turns of all who wait,
        what decides whether a loop ends has come back to what it was, again and again
  passes     {here} of block {block} {here:goes|go} on with the loop{op} for ever: in {looks} passes, what decides
        whether it ends has come back to what it was, again and again
  polls      {polls}: nobody changes what it waits for{others:|; {others}}
  locks      thread {thread} of block {block} waits{op} for a lock while it holds another one, and so does thread
        {rival} of block {other}{waits}, but in another order: each may hold what the other waits for
  > locks    let everybody take them in the same order
  > -          one of them must arrive before it waits
  > endless    look at what its condition depends on; MOYE_STEPS=0 lets loops run for as long as they like
  > round      let somebody change what its condition depends on
  > passes     let somebody change what its condition depends on
  > polls
F5   S     a consumer exits while the producer still waits
  > -          let the readers release every stage that is filled for them, or tell the one who fills them to stop
F6   T/S   register budget exceeded, not a multiple of 8, or changed in a wrong way
  -          block {block}: {message}
  late       warp group {group} of block {block} waits for {wanted} registers of each thread{op}, and can have {left}:
        the others give theirs back only after they have heard that it has gone on
  again      warp group {group} of block {block} executes {name}{op} after {before}, and its warps do not meet in
        between
  turned     warp group {group} of block {block} has {has} registers for each thread, and {name}{op} {ask}
  > -          {advice}
  > late       let the others give back before they wait for what comes behind warpgroup_reg_alloc()
F7   S     block-wide barrier inside one role
  points     {two_barriers}
  past       {gone_past}
  > -          barrier_sync(id, count) among the threads of the role
G1   S     two blocks store one element
  -          {both}: blocks run in any order, so nothing says which of the two stays
  cluster    {both}{in_cluster}
  arrival    {both}{in_cluster}{arrives}
  > -          let one block write each element
  > cluster    cluster_sync() between the two
  > arrival    mo.fence(scope="cluster") before the arrival and after the wait, or cluster_sync()
G2   S     accumulation between blocks without atomics or initialisation
  -          {both}, and both blocks change it: without atomics, or an order between the blocks, one may undo the
        other's work
  > -          mo.atomic_add, or a slice of a workspace for each block
G3   S     a flag without release and acquire
  -          {both}: the blocks signal through global memory, but no release and acquire orders the two
  cluster    {both}{in_cluster}
  arrival    {both}{in_cluster}{arrives}
  launch     {who} {written:reads|writes} {element}{op} with no griddepcontrol_wait() before: the launch of {prior},
        which this one does not wait for, may {does} it later
  torn       thread {thread} of block {block} reads {tensor}{read} between two looks at {version}, and uses it if both
        find {number}; but it may have read {may} then: the {who} has no fence {where}
  late       {taken_back}
  own        {taken_again}
  reset      {set_back}
  > -          sync_threads(), then signal with order="release"; wait with order="acquire", then sync_threads()
  > torn       mo.fence() there, in the {who}
  > late       let one thread store it, or order all who do before the signal
  > own        say that it waits by a release, which who answers acquires
  > reset      order all who draw before it: by the atomic that says who is last, with order="acq_rel"
  > atomic     mo.load(x, i) and mo.store(x, i, value) may meet atomics: order="relaxed" for the value alone, release
        and acquire for what was written before it
  > cluster    cluster_sync() between the two
  > arrival    mo.fence(scope="cluster") before the arrival and after the wait, or cluster_sync()
  > launch     griddepcontrol_wait() in every thread, or in one and then a barrier, before what earlier launches use
        is touched
G4   S     spinning on blocks that cannot be resident together
  -          {polls}: the {unstarted} blocks that have not started wait for it to end{others:|; {others}}
  grid       the {blocks} blocks of the grid meet at grid_sync{op}, and at most {most} are resident at once{each:|:
        {each} on each of {sms} multiprocessors}
  > -          launch no more blocks than can be resident together
  > grid       launch fewer blocks, and let each do the work of several in a loop
G5   S     in-place aliasing of input and output between blocks
  -          {both}: nothing orders the blocks, so the read may find either value
  cluster    {both}{in_cluster}
  arrival    {both}{in_cluster}{arrives}
  > -          read from another array than the one that is written
  > cluster    cluster_sync() between the two
  > arrival    mo.fence(scope="cluster") before the arrival and after the wait, or cluster_sync()
P1   P     bank conflicts
P2   P     a copy narrower than its layouts allow
P3   P     uncoalesced rows
P4   P     a pipeline that waits for everything each step
P5   P     a redundant barrier or fence
P6   P     spills or local memory
P7   P     serialised wgmma
P8   P     occupancy limited by shared memory or registers
V1   S     wrong result
  = order      {sentence}; this is so in another schedule than the first, in which it is right
  > order      let a barrier, or a wait for a value, stand between what is stored and the load that must find it
  > older      let a barrier, or a wait for a value, stand between what is stored and the load that must find it
"""

CODES: dict[str, Code] = {}
_WORDS: dict[tuple[str, str, str], str] = {}
"""By class, kind (nothing, = or >) and case."""


def _read(table: str) -> None:
    code = ""
    for line in table.strip().replace("\n        ", " ").splitlines():
        if not line.startswith("  "):
            code, when, title = line.split(maxsplit=2)
            if code != _ALL:
                CODES[code] = Code(code, title, when)
            continue
        kind = line[2] if line[2:4] in ("= ", "> ") else ""
        case, _, text = line[3 * bool(kind):].strip().partition(" ")
        assert (code, kind, case) not in _WORDS, f"{code} has {kind}{case} twice"
        _WORDS[code, kind, case] = text.strip()


_ALL = "*"
_read(_TABLE.rstrip() + SHARED)


def _find(code: str, kind: str, case: str) -> str | None:
    for key in ((code, kind, case), (_ALL, kind, case), (code, kind, "-")):
        if key in _WORDS:
            return _WORDS[key]
    return None


def sentence(code: str, case: str = "-") -> str:
    """What is said of a violation of this class in this case; else what is said in any case."""
    found = _find(code, "", case)
    assert found is not None, f"no sentence for {code} in the case {case!r}"
    return found


def clause(code: str, name: str) -> str:
    """A part of sentences: that of the class, else that of all."""
    found = _find(code, "=", name)
    assert found is not None, f"{code}: {{{name}}} is neither a fact nor a clause"
    return found


def hint(code: str, case: str = "-") -> str | None:
    """What would mend a violation of this class in this case; else what mends it in any case, if anything does."""
    return _find(code, ">", case) or None


def hint_between_roles(code: str) -> str | None:
    """What would mend it where the two accesses are in two roles, if the class has a hint for that."""
    return _WORDS.get((code, ">", "roles"))


def hints(code: str) -> list[str]:
    """Everything that may mend a violation of this class."""
    return [text for (owner, kind, _), text in _WORDS.items() if owner == code and kind == ">"]


def page_of(code: str) -> str:
    """Where the site tells of a class, and of a kernel that has it; from the root of the site."""
    return f"checker.html#{code.lower()}"
