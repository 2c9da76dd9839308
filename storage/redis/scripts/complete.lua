-- ARGV[2]: the retention in milliseconds. ARGV[3]: what follows the time in the record.
if done then return found(DONE, redis.call('PTTL', key)) end

local head = '1' .. FINISHED .. ARGV[1] .. struct.pack('>I6', now())

-- The only write: a server at its memory limit refuses it, and nothing has changed.
local set = redis.pcall('SET', key, head .. ARGV[3], 'PX', ARGV[2])
if set.err then return set end

if mine then return APPLIED end
return LOST
