if not record then return ABSENT end
if claimed then
  local pttl = redis.call('PTTL', key)
  if pttl > grace() then return found(IN_FLIGHT, pttl) end
end
redis.call('DEL', key)
return APPLIED
