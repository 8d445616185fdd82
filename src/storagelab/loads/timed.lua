local ffi = require("ffi")
pcall(ffi.cdef, "struct storagelab_time { long s; long part; };"
  .. "int clock_gettime(int, struct storagelab_time *); int gettimeofday(struct storagelab_time *, void *);")
local time = ffi.new("struct storagelab_time")
local function steady_us()
  ffi.C.clock_gettime(1, time)
  return tonumber(time.s) * 1e6 + tonumber(time.part) / 1e3
end
ffi.C.gettimeofday(time, nil)
local to_epoch_us = tonumber(time.s) * 1e6 + tonumber(time.part) - steady_us()
assert(loadfile(assert(package.searchpath("MODULE", package.path))))()
local work, log, began_us, number = event, nil, nil, 0
if work then
  function event(thread)
    if not log then
      log = io.open("PREFIX." .. thread, "w")
      log:setvbuf("full", 65536)
    end
    began_us = began_us or steady_us()
    local is_last = work(thread)
    local ended_us = steady_us()
    local at_us = ended_us + to_epoch_us
    local at_s = math.floor(at_us / 1e6)
    log:write(string.format("%d %d %.0f 0 %d %d\n", thread, number, ended_us - began_us, at_s, at_us - at_s * 1e6))
    began_us, number = nil, number + 1
    return is_last
  end
end
