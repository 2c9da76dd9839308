-- ARGV[2]: lease + grace in milliseconds. ARGV[3]: the grace, as a record has it.
if not mine then return LOST end

redis.call('PEXPIRE', key, ARGV[2])
if string.sub(record, 19, 24) ~= ARGV[3] then
  -- After a first write the memory limit no longer counts, and this one takes no memory.
  redis.call('SETRANGE', key, 18, ARGV[3])
end
return APPLIED
