package main

// managers shows the processes, their queues, and their requests to API servers.
func managers() dashboard {
	const (
		in     = `{job=~"$job"}`
		window = "[$__rate_interval]"
	)
	return newDashboard("capmcm-managers", "Machines: managers",
		"The processes, their queues, and their requests to API servers.",
		[]variable{choice("job", "Job", "mcm_build_info")},
		[]panel{
			graph("Who leads", "By API", plain, line{"mcm_manager_leading" + in, "{{pod}} {{api_group}}"}),
			table("Versions", "", "mcm_build_info"+in),
		},
		[]panel{
			graph("Objects that wait", "By queue", count, line{"sum by (name) (mcm_workqueue_depth" + in + ")", "{{name}}"}),
			graph("Objects added", "By queue", rate,
				line{"sum by (name) (rate(mcm_workqueue_adds_total" + in + window + "))", "{{name}}"}),
			graph("Longest reconcile in progress", "By queue", seconds,
				line{"max by (name) (mcm_workqueue_longest_running_processor_seconds" + in + ")", "{{name}}"}),
		},
		[]panel{
			graph("How long objects wait", "Quantiles by queue", seconds,
				quantiles("mcm_workqueue_queue_duration_seconds", in, "name", "{{name}}")...),
			graph("How long reconciles take", "Quantiles by queue", seconds,
				quantiles("mcm_workqueue_work_duration_seconds", in, "name", "{{name}}")...),
		},
		[]panel{
			graph("Requests to API servers", "By verb", rate,
				line{"sum by (verb) (rate(rest_client_request_latency_seconds_count" + in + window + "))", "{{verb}}"}),
			graph("Until they answer", "Quantiles by verb", seconds,
				quantiles("rest_client_request_latency_seconds", in, "verb", "{{verb}}")...),
			graph("Watches that ended within a second", "By resource, in an hour", count,
				line{"sum by (name) (increase(mcm_reflector_short_watches_total" + in + "[1h]))", "{{name}}"}),
		},
		[]panel{
			graph("Memory", "", size, line{"process_resident_memory_bytes" + in, "{{pod}}"}),
			graph("CPU", "Cores", count, line{"rate(process_cpu_seconds_total" + in + window + ")", "{{pod}}"}),
			graph("Goroutines", "", count, line{"go_goroutines" + in, "{{pod}}"}),
			graph("Kinds that could not be read for metrics", "In an hour", count,
				line{"sum by (kind) (increase(mcm_misc_scrape_failure_total" + in + "[1h]))", "{{kind}}"}),
		})
}
