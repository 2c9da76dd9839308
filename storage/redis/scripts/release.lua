if not mine then return LOST end
redis.call('DEL', key)
return APPLIED
