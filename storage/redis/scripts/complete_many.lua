-- Is complete.lua for many keys, one after the other, each with three ARGV. A call of the server from within a script costs it as much as
-- the command itself, and a script more than that, so that this takes about half of what a script for each key would. The
-- answers are those of the scripts for one key: a number, {5, record, PTTL, time}, or an error.
local call, sub = redis.pcall, string.sub
local t = call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local at = struct.pack('>I6', now)
local answers = {}

for i, key in ipairs(KEYS) do
  local owner, retention, rest = ARGV[3 * i - 2], ARGV[3 * i - 1], ARGV[3 * i]
  local record = call('GET', key)
  local head = type(record) == 'string' and #record >= 24 and sub(record, 1, 2)
  if type(record) == 'table' then
    answers[i] = record
  elseif head == '1D' then
    answers[i] = {5, record, call('PTTL', key), now}
  elseif record and head ~= '1C' and head ~= '1T' then
    answers[i] = redis.error_reply('RMQDEDUP not a record of format 1')
  else
    local set = call('SET', key, '1D' .. owner .. at .. rest, 'PX', retention)
    if set.err then
      answers[i] = set
    elseif head and sub(record, 3, 18) == owner then
      answers[i] = 7
    else
      answers[i] = 8
    end
  end
end

return answers
