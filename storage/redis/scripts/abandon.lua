-- ARGV[2]: the owner that nobody holds.
if claimed and string.sub(record, 3, 18) == ARGV[2] then return APPLIED end -- the answer to an earlier request was lost
if not mine then return LOST end

local kept = grace()
if redis.call('PTTL', key) <= kept then return LOST end -- its deadline has passed already

if kept == 0 then
  redis.call('DEL', key)
else
  -- In this order: after a first write the memory limit no longer counts, and the second takes no memory.
  redis.call('PEXPIRE', key, kept)
  redis.call('SETRANGE', key, 2, ARGV[2])
end
return APPLIED
