-- http-request lua.weir: ask the weir at txn.weir_url about the request at hand. Leaves txn.weir_status (0
-- or 503, 504: it did not answer, and the request passes), txn.weir_retry_after, txn.weir_ratelimit and txn.weir_body.
local not_passed = {["connection"] = true, ["content-length"] = true, ["host"] = true, ["transfer-encoding"] = true,
                    ["x-original-url"] = true, ["x-forwarded-uri"] = true, ["x-forwarded-method"] = true}

local function values(lines) -- HAProxy's lists begin at 0, ours at 1
    local out = {}
    for i = 0, #lines do
        out[#out + 1] = lines[i]
    end
    return out
end

core.register_action("weir", {"http-req"}, function(txn)
    local headers = {}
    for name, lines in pairs(txn.http:req_get_headers()) do
        if not not_passed[name] then
            headers[name] = values(lines)
        end
    end
    headers["x-original-uri"] = {txn.sf:pathq()}
    headers["x-original-method"] = {txn.sf:method()}
    local forwarded = headers["x-forwarded-for"] or {}
    forwarded[#forwarded + 1] = txn.sf:src()
    headers["x-forwarded-for"] = forwarded

    local answer = core.httpclient():get{url = txn:get_var("txn.weir_url"), headers = headers, timeout = 10000}
    local function field(name)
        local lines = answer.headers and answer.headers[name]
        return lines and lines[0]
    end
    txn:set_var("txn.weir_status", answer.status or 0)
    for variable, name in pairs{retry_after = "retry-after", ratelimit = "ratelimit"} do
        if field(name) then
            txn:set_var("txn.weir_" .. variable, field(name))
        end
    end
    txn:set_var("txn.weir_body", answer.body or "")
end)
