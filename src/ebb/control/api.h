#pragma once

/// The public API (docs/reference/api.md, openapi.yaml): turns HTTP requests into calls of the controller.
///
/// Every request but /healthz and /readyz needs the token. On loopback the Host must be a loopback name and an Origin,
/// which only browsers send, is refused: a web page that the user has open cannot reach the API.

#include <string>

#include "ebb/control/controller.h"
#include "ebb/control/http_server.h"

namespace ebb::control {

struct ApiSettings {
  std::string token;
  std::string working_directory;  ///< for relative paths in a submission that names none
};

class Api {
 public:
  Api(Controller& controller, ApiSettings settings) : controller_(controller), settings_(std::move(settings)) {}

  /// May be called from several threads.
  HttpResponse handle(const HttpRequest& request) const;

 private:
  HttpResponse route(const HttpRequest& request) const;
  HttpResponse job_route(const HttpRequest& request, JobId job, const std::string& rest) const;
  HttpResponse submit(const HttpRequest& request) const;
  HttpResponse list_jobs(const HttpRequest& request) const;
  HttpResponse list_events(const HttpRequest& request) const;
  HttpResponse read_log(const HttpRequest& request, JobId job) const;

  Controller& controller_;
  ApiSettings settings_;
};

}  // namespace ebb::control
