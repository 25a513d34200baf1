"""The words of findings that several classes share: the last rows of the table in codes.py, of the class ``*``.

In: nothing.  Out: ``SHARED``, which codes.py reads with its own rows; how to read them is said there.
"""

SHARED = """
*    -     words that several classes share
  = who        thread {thread} of block {block}
  = here       {element} of block {owner}
  = now        the {noun} by thread {actor}{by:| of block {by}}{op}
  = then       the {deed} by thread {rival}{of:| of block {of}}{other}
  = a_read     read
  = a_written  write
  = a_copied   asynchronous copy
  = a_updated  atomic update
  = a_loaded   copy
  = barrier    barrier{across:| of the cluster}
  = missing    no {barrier} between {then} and {now}
  = read_early {here} may be {done} before it is written: {missing}
  = written_twice {here} is written twice in an order that nothing decides: {missing}
  = overwritten {here} may be overwritten while it is still being read
  = in_flight  {here} is {done} while a copy into it is in flight
  = may_be_in_flight {here} is {done} while a copy into it may be in flight
  = unwaited   no cp_async_wait() of thread {rival} between {then} and {now}
  = unwaited_own thread {actor} has no cp_async_wait() between its asynchronous copy{other} and its {noun}{op}
  = no_wait    no wait and {barrier} between {then} and {now}
  = no_phase   the copy{other} completes phase {phase} of {engine}, and nothing orders {now} after a wait of that
        block for it
  = phase_unwaited {here} is {done} by thread {actor}{op} without a wait for phase {phase} of {engine}, which the
        copy{other} completes
  = passed     {phases:no phase before the first is under way|phase 0 is complete|phase {before} is complete}
  = filled     {here} is filled by the copy{op} of thread {actor}
  = filled_again {here} is filled again by thread {actor}
  = begun_again {who} begins to fill the stage of {full} again
  = released   {own:thread {releaser}|it} has released the stage{arrival}, at {empty}
  = unseen     {here} is {done} by the {unit}{op}
  = writer     {rival}{away:| of another block}
  = unfenced   no fence_proxy_async() of thread {writer} since it wrote it{other}
  = announced  no fence_proxy_async() of a thread that has waited for {engine} since the copy{other} completed on it
  = fenced_late thread {writer}, which wrote it{other}, fences after the barrier that orders the two
  = writing    {copy:the write|the copy}
  = store_reads {here} is overwritten{op} while the store{other} may still read it
  = product_reads {here} is overwritten{op} while the wgmma{other} of {engine} may still read it: {writing} by thread
        {actor} is not ordered after a warpgroup_wait that covers it
  = accessed   {element} in global memory is {done} by thread {actor} of block {block}
  = after_write {accessed} while nothing orders it after the write by thread {rival}{alias:| through {alias}}:
        {no_barrier} between them
  = before_write {accessed} while thread {rival} may still be reading it{alias:| through {alias}}: {no_barrier}
        between that read and this write
  = no_barrier there is no barrier
  = not_stored {accessed}{op}, but the store{store} may not have written it
  = taken_back thread {rival} of block {other} stores {value} in {tensor}{stores}, as another thread does, and nothing
        orders that before thread {thread} of block {block} changes it{op}: if it comes late, it takes that back
  = taken_again thread {rival} of block {other} stores {value} in {tensor}{stores}, waits there for something else, and
        nothing orders its store before thread {thread} of block {block} stores that{op}: if it comes late, it takes
        that back, and the wait does not end
  = set_back   thread {rival} of block {other} draws a number from {tensor}{draws}, and nothing orders that before
        thread {thread} of block {block} sets it back to {value}{op}: if it comes late, a number is drawn twice
  = being_read {accessed}{op}, while the {bulk:asynchronous copy|bulk copy}{copy} may still be reading it
  = storer     thread {rival}{apart:| of block {of}}
  = through_proxy {element} in global memory is {done} by the copy{op} of thread {actor} of block {block}, which goes
        through the asynchronous proxy: no fence_proxy_async() lies between the write by {storer}{other} and the copy
  = both       {element} is {one} and {two}
  = access_now {done} by {detail:|thread {actor} of }block {block}
  = access_then {did} by {detail:|thread {rival} of }block {of}{alias:| through {alias}}
  = in_cluster : no barrier of their cluster lies between the two
  = arrives    , and an arrival at the mbarrier of another block hands over shared memory alone
  = agreed     {sentence}; both write the same value
  = overlapping pass arguments that do not overlap, or {mend}
  = relaxed    {mend}; a relaxed arrival orders nothing
  = in_mode    {stages:index {index} of {extent}|stage {index} of {extent} stages}, in mode {mode}
  = unaligned  {who} accesses {size} bytes of {label}{op}, at byte address {address:#x}, which is no multiple of
        {size}
  = used_later {later:|, and what comes of it is used{later}}
  = two_barriers the threads of block {block} have come to different barriers: {met}{branch:|; the branch{branch}
        makes one of them part of one role}
  = gone_past  {here} of block {block} {here:waits|wait} at {name}{op}{branch:| inside of one role (the
        branch{branch})}, which {left}
  = left       {away} of block {home} {away:has|have} gone past, and {away:has|have} {ways}
  = arrive_wrong {here} of block {block} {here:arrives|arrive} at named barrier {number}{op}
  = index_outside {who} {written:reads|writes} index {index} of {view}, mode {mode}{op}, outside of its extent
        {extent}{element:|: that is {element}}
  = view_outside {who} {written:reads|writes} {element}{base:|, a view of {base}}{there:| of block {there}}{op},
        outside of {view} with {home}
  = polls      thread {thread} of block {block} polls memory forever
  = deadlocked block {block} is deadlocked: {waiters}
  = more_wait  {rest} more groups wait
  = have_left  {here} {here:has|have} {point:come to the end of the kernel|returned{point}}
  = stands     {here} {here:waits|wait} at {what}{point}
  = waits_for_arrivals {stands} for {missing} more arrival{missing:|s}, {needed:and no other thread is left to bring
        them|which only {needs} could bring}
  = waits_for_threads {stands}{role:|, which is inside of one role (the branch{role})}{others:|, which threads of
        block{several:|s} {others}{and_more} have not come to}{comma}{needed:| for {needs}}
  = and_more   {hidden:| and {rest} more}
  = waits_for_phase {here} {here:waits|wait} for {what}{point}{lacks:|, which lacks {lacks}}{unnamed:|, and multicasts
        within the cluster have left this block out}{senders:| that block{many:|s} {senders} {many:has|have} not sent
        yet}{known:| (so far {needs} arrived there)}{gone:| ({left}
        {left:has|have} arrived there{last}, and {left:has|have} left)}{skipped:|, while nobody has waited for the
        phase before it, which is complete}{late:|, and {behind} more phases are complete than they have waited
        for}{spare:|, and {over} more bytes have come than were expected}
  = lacks_arrivals {missing} of {count} arrivals
  = lacks_bytes {bytes} bytes
  = absent     which the block does not have
  = unnamed_lane which is not in the mask
  = exited     which has exited
  = not_there  which is not there
  > unheeded   mbarrier_wait() where mbarrier_try_wait() is false
  > answered   let mbarrier_try_wait() ask for the phase whose mbarrier_wait() its answer saves
  = answered   {sentence}; mbarrier_try_wait() may be true at once, and nobody waits then
  > once       keep no answer of mbarrier_try_wait() for another phase
  = once       {sentence}; mbarrier_try_wait() may be true once and false later, and nobody waits then
  > elected    let the thread that elect() chooses do what belongs together: keep its answer
  = elected    {sentence}; elect() may choose another lane than the first, and does here
  = unheeded   {sentence}; mbarrier_try_wait() may be false, and does not wait then
  > older      mo.fence("seq_cst") in both threads, between what each stores and the load that must find what the other
        stores
  = older      {sentence}; a load may miss a store that nothing orders before it, and does here
  > lucky      hold one lock at both
  > none
  = lucky      {sentence}; no lock is held at both, and who took one first is luck
  asserted   {who}: {message}{op}
  sizes      {both}: {uneven}
  sizes_here {here} is accessed atomically by thread {rival}{other} and by thread {actor}{op}: {uneven}
  = uneven     atomic accesses of {less} and of {more} bytes are not atomic to each other, and nothing orders them
  > sizes      access it in one size
  > sizes_here access it in one size
"""
