package main

// clouds shows what is asked of the clouds, and what they answer.
func clouds() dashboard {
	const in = `{provider=~"$provider"}`
	const window = "[$__rate_interval]"
	return newDashboard("capmcm-clouds", "Machines: clouds",
		"Requests to the clouds, their failures, and resources without an owner.",
		[]variable{choice("provider", "Provider", "mcm_cloud_api_requests_total")},
		[]panel{
			graph("Requests", "By service", rate,
				line{
					"sum by (provider, service) (rate(mcm_cloud_api_requests_total" + in + window + "))",
					"{{provider}} {{service}}",
				}),
			graph("Requests that failed", "By service", rate, line{
				"sum by (provider, service) (rate(mcm_cloud_api_requests_failed_total" + in + window + "))",
				"{{provider}} {{service}}",
			}),
			graph("Share of requests that failed", "", share, line{
				"sum by (provider) (rate(mcm_cloud_api_requests_failed_total" + in + window + ")) / " +
					"sum by (provider) (rate(mcm_cloud_api_requests_total" + in + window + "))", "{{provider}}",
			}),
		},
		[]panel{
			graph("Calls that failed", "By MCM's code: 3 invalid, 5 not found, 7 denied, 8 exhausted, 13 unknown, "+
				"14 unavailable or throttled", rate, line{
				"sum by (operation, error_code) (rate(mcm_cloud_api_driver_requests_failed_total" + in + window + "))",
				"{{operation}} {{error_code}}",
			}),
			graph("Calls that succeeded", "By operation", rate, line{
				"sum by (operation) (rate(mcm_cloud_api_driver_request_duration_seconds_count" + in + window + "))",
				"{{operation}}",
			}),
		},
		[]panel{
			graph("Duration of requests", "Quantiles of those that succeeded", seconds,
				quantiles("mcm_cloud_api_api_request_duration_seconds", in, "service", "{{service}}")...),
			graph("Duration of calls", "Quantiles of those that succeeded", seconds,
				quantiles("mcm_cloud_api_driver_request_duration_seconds", in, "operation", "{{operation}}")...),
		},
		[]panel{
			graph("Resources found without an owner", "In an hour, of all providers", count,
				line{"sum by (provider, kind) (increase(mcm_safety_orphans_seen_total[1h]))", "{{provider}} {{kind}}"}),
			graph("Of these, removed", "In an hour, of all providers", count,
				line{"sum by (provider, kind) (increase(mcm_safety_orphans_removed_total[1h]))", "{{provider}} {{kind}}"}),
			graph("Looks that were not completed", "In an hour, of all providers", count,
				line{"sum by (provider) (increase(mcm_safety_orphan_scans_failed_total[1h]))", "{{provider}}"}),
		})
}
