#pragma once

/// The values of api.h as JSON texts and back: one object each, keys as the fields, times as nanoseconds of UTC.
///
/// Errors of the readers: invalid_argument, for what the writers would not write.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/wire/api.h"

namespace ebb::wire {

std::string to_json(const JobView& view);
std::string to_json(const JobDetail& detail);
std::string to_json(const Explanation& explanation);
/// {"error":{"code":...,"message":...}}
std::string to_json(const Error& error);

/// {"jobs":[...]}: and so on, the name of the list first.
std::string list_to_json(const std::vector<JobView>& jobs);
std::string list_to_json(const std::vector<NodeView>& nodes);
std::string list_to_json(const std::vector<EventView>& events);
std::string to_json(const TokenView& token);
std::string list_to_json(const std::vector<TokenView>& tokens);
std::string to_json(const PolicyView& policy);
/// {"as_is":...,"changed":...}
std::string outlooks_to_json(const Outlook& as_is, const Outlook& changed);
Result<std::pair<Outlook, Outlook>> outlooks_from(std::string_view json);
/// {"workers":k}: the body of a request for another size.
std::string resize_to_json(std::int32_t workers);
Result<std::int32_t> resize_from(std::string_view json);
/// {"token":...}: a new one, said once.
std::string token_to_json(const std::string& token);

Result<JobDetail> job_detail_from(std::string_view json);
Result<Explanation> explanation_from(std::string_view json);
Result<std::vector<JobView>> jobs_from(std::string_view json);
Result<std::vector<NodeView>> nodes_from(std::string_view json);
Result<std::vector<EventView>> events_from(std::string_view json);
Result<PolicyView> policy_from(std::string_view json);
/// The same; `options` may be left out, unknown keys are refused.
Result<PolicyView> policy_request_from(std::string_view json);
Result<std::vector<TokenView>> tokens_from(std::string_view json);
/// {"name":...,"role":...,"tenant":...}, the last one optional; unknown keys are refused.
Result<TokenView> token_request_from(std::string_view json);
Result<std::string> token_from(std::string_view json);
/// {"jobs":[12,13]}: the answer to a submission.
std::string ids_to_json(const std::vector<JobId>& ids);
Result<std::vector<JobId>> ids_from(std::string_view json);
/// For a value of a query, or a segment of a path.
std::string url_escape(std::string_view text);
/// "%41b" -> "Ab"; what is no escape stays as it is.
std::string url_unescape(std::string_view text);
/// The error that a body tells; `otherwise` if it tells none.
Error error_from(std::string_view json, Error otherwise);

}  // namespace ebb::wire
