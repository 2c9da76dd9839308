-- Stands before every script. KEYS[1] is the record's key, ARGV[1] the requester's owner.
--
-- A record: its format, '1'; its kind; 16 bytes of owner; 6 bytes of a number, big-endian; then what only the client reads.
-- The number is a claim's grace, or when the key became done, both in milliseconds. record.go has the whole layout.
local CLAIM, TAKEOVER, FINISHED = 'C', 'T', 'D'

-- The answers, as rmqdedup.Outcome numbers them.
local CLAIMED, TAKEN_OVER, IN_FLIGHT, ORPHAN, DONE, ABSENT, APPLIED, LOST = 1, 2, 3, 4, 5, 6, 7, 8

local key = KEYS[1]
local record = redis.pcall('GET', key)
if type(record) == 'table' then return record end -- the server's own error, such as WRONGTYPE

local kind = record and string.sub(record, 2, 2)
if record and (#record < 24 or string.sub(record, 1, 1) ~= '1' or not string.find(kind, '[CTD]')) then
  return redis.error_reply('RMQDEDUP not a record of format 1')
end

local done = kind == FINISHED
local claimed = record and not done
local mine = claimed and string.sub(record, 3, 18) == ARGV[1]

local function grace()
  return (struct.unpack('>I6', record, 19))
end

-- The time in milliseconds, by the server's clock.
local function now()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- An answer with what was found: the record, how long its key would have lived on, and what the time is.
local function found(answer, pttl)
  return {answer, record, pttl, now()}
end
