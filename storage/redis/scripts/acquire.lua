-- ARGV[2]: lease + grace in milliseconds. ARGV[3]: the claim, from its owner on.
if done then return found(DONE, redis.call('PTTL', key)) end

local new, pttl = CLAIM, nil
if claimed then
  pttl = redis.call('PTTL', key)
  if mine then
    new = kind -- the answer to an earlier request was lost: the claim begins anew, as the takeover that it was, if it was
  elseif pttl > grace() then
    return found(IN_FLIGHT, pttl)
  else
    new = TAKEOVER
  end
end

-- The only write: a server at its memory limit refuses it, and nothing has changed.
local set = redis.pcall('SET', key, '1' .. new .. ARGV[3], 'PX', ARGV[2])
if set.err then return set end

if new == TAKEOVER then return found(TAKEN_OVER, pttl) end
return CLAIMED
