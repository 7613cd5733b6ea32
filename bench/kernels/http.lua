-- SPDX-License-Identifier: BSL-1.0
-- What wrk says at its end, in one line that bench/kernels/http.c reads: requests, microseconds,
-- wrong answers, requests without one, and the 50th, 99th and 99.9th percentile of the latency in microseconds.
done = function(summary, latency, requests)
   local errors = summary.errors
   io.write(string.format("umbra %d %d %d %d %d %d %d\n", summary.requests, summary.duration,
      errors.status, errors.timeout + errors.connect + errors.read + errors.write,
      latency:percentile(50), latency:percentile(99), latency:percentile(99.9)))
end
