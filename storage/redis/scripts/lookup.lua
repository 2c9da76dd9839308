if not record then return ABSENT end
local pttl = redis.call('PTTL', key)
if done then return found(DONE, pttl) end
if pttl > grace() then return found(IN_FLIGHT, pttl) end
return found(ORPHAN, pttl)
