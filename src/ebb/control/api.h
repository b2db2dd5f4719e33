#pragma once

/// The public API (docs/reference/openapi.yaml): turns HTTP requests into calls of the controller.
///
/// Every request but /healthz and /readyz needs a token whose role allows it (access.h), and each token has a limit of
/// requests a second. On loopback the Host must be a loopback name and an Origin, which only browsers send, is refused:
/// a web page that the user has open cannot reach the API.

#include <string>
#include <vector>

#include "ebb/control/access.h"
#include "ebb/control/controller.h"
#include "ebb/control/http_server.h"
#include "ebb/control/rate_limit.h"

namespace ebb::control {

struct ApiSettings {
  std::string working_directory;       ///< for relative paths in a submission that names none
  double requests_per_second = 1'000;  ///< of one token
  double burst = 5'000;                ///< of one token
};

class Api {
 public:
  Api(Controller& controller, Access& access, ApiSettings settings);

  /// May be called from several threads.
  HttpResponse handle(const HttpRequest& request);

 private:
  struct Call;
  struct Route;
  static const std::vector<Route>& routes();

  HttpResponse answer_to(const HttpRequest& request);
  HttpResponse route(const HttpRequest& request);

  HttpResponse submit(const Call& call);
  HttpResponse list_jobs(const Call& call);
  HttpResponse show_job(const Call& call);
  HttpResponse explain(const Call& call);
  HttpResponse read_log(const Call& call);
  HttpResponse cancel(const Call& call);
  HttpResponse hold(const Call& call);
  HttpResponse release(const Call& call);
  HttpResponse resize(const Call& call);
  HttpResponse list_nodes(const Call& call);
  HttpResponse drain(const Call& call);
  HttpResponse undrain(const Call& call);
  HttpResponse show_policy(const Call& call);
  HttpResponse set_policy(const Call& call);
  HttpResponse what_if(const Call& call);
  HttpResponse list_events(const Call& call);
  HttpResponse stream_events(const Call& call);
  HttpResponse list_tokens(const Call& call);
  HttpResponse create_token(const Call& call);
  HttpResponse revoke_token(const Call& call);
  HttpResponse show_metrics(const Call& call);

  /// The job that the call names, if its caller may see its secrets and act on it.
  Result<JobId> own_job(const Call& call);
  HttpResponse act(const Call& call, Result<void> (Controller::*verb)(JobId));

  Controller& controller_;
  Access& access_;
  const ApiSettings settings_;
  RateLimit rate_limit_;
};

}  // namespace ebb::control
