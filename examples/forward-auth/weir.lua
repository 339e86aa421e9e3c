-- http-request lua.weir: ask the weir at txn.weir_url about the request at hand. It passes (txn.weir_passes is true) on
-- 2xx, and where weir did not answer. Whatever else is said refuses it, and is handed to the caller as it is.
local passed_on = {"x-api-key", "x-forwarded-for"} -- what the policy looks at, and nothing else of the caller's
local handed_on = {["retry-after"] = true, ["ratelimit"] = true, ["ratelimit-policy"] = true, ["cache-control"] = true,
                   ["content-type"] = true}

local function values(lines) -- HAProxy's lists begin at 0, ours at 1
    local out = {}
    for i = 0, lines and #lines or -1 do
        out[#out + 1] = lines[i]
    end
    return out
end

-- "listen weir" answers for a weir that is gone (502, 503) or hangs (504). A refusal has X-Weir-Status, whatever its
-- status is. Let requests through then? "return false" would keep them out.
local function is_gone(answer)
    return answer.status >= 502 and answer.status <= 504 and not answer.headers["x-weir-status"]
end

local function refuse(txn, answer)
    local reply = txn:reply{status = answer.status, body = answer.body or ""}
    for name, lines in pairs(answer.headers) do
        for _, line in ipairs(handed_on[name] and values(lines) or {}) do
            reply:add_header(name, line)
        end
    end
    txn:done(reply)
end

core.register_action("weir", {"http-req"}, function(txn)
    local asked, headers = txn.http:req_get_headers(), {}
    for _, name in ipairs(passed_on) do
        headers[name] = values(asked[name])
    end
    headers["x-original-uri"] = {txn.sf:pathq()}
    headers["x-original-method"] = {txn.sf:method()}
    table.insert(headers["x-forwarded-for"], txn.sf:src())

    local answer = core.httpclient():get{url = txn:get_var("txn.weir_url"), headers = headers, timeout = 10000}
    local status = answer.status or 0 -- 0: it could not be asked; the request is refused
    if status >= 200 and status <= 299 or status > 0 and is_gone(answer) then
        txn:set_var("txn.weir_passes", true)
        local lines = answer.headers["ratelimit"]
        if lines then
            txn:set_var("txn.weir_ratelimit", lines[0])
        end
    elseif status > 0 then
        refuse(txn, answer)
    end
end)
