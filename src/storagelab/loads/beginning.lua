local made = sysbench.sql.driver
function sysbench.sql.driver(...)
  local driver = made(...)
  local function connect()
    local session = driver:connect()
    session:query("STATEMENT")
    return session
  end
  return setmetatable({connect = connect}, {__index = function(_, name)
    return function(_, ...) return driver[name](driver, ...) end
  end})
end
assert(loadfile(assert(package.searchpath("MODULE", package.path))))()
