package main

// pools shows the MachineDeployments of the native API.
func pools() dashboard {
	const (
		object = `{namespace=~"$namespace",name=~"$name"}`
		pool   = `{namespace=~"$namespace",machine_deployment=~"$name"}`
		legend = "{{namespace}}/{{name}}"
	)
	step := func(name string) string {
		return `{namespace=~"$namespace",machine_deployment=~"$name",step="` + name + `"}`
	}
	const histogram = "mcm_machine_step_duration_seconds"
	return newDashboard("capmcm-pools", "Machines: pools",
		"MachineDeployments of the native API and how long their machines take.",
		[]variable{
			choice("namespace", "Namespace", "mcm_machine_deployment_info"),
			choice("name", "Pool", `mcm_machine_deployment_info{namespace=~"$namespace"}`),
		},
		[]panel{
			graph("Machines asked for", "", count, line{"mcm_machine_deployment_info_spec_replicas" + object, legend}),
			graph("Machines available", "", count, line{"mcm_machine_deployment_status_available_replicas" + object, legend}),
			graph("Machines missing", "", count, line{"mcm_machine_deployment_status_unavailable_replicas" + object, legend}),
		},
		[]panel{
			graph("Rollout: machines with the current template", "", count,
				line{"mcm_machine_deployment_status_updated_replicas" + object, legend}),
			table("Paused, frozen or without progress", "Conditions that are not as they should be",
				`mcm_machine_deployment_info_spec_paused`+object+` == 1 `+
					`or mcm_machine_deployment_status_condition{namespace=~"$namespace",name=~"$name",condition="Frozen"} == 1 `+
					`or mcm_machine_deployment_status_condition{namespace=~"$namespace",name=~"$name",condition="Progressing"} == 0`),
			table("Failed machines", "Whose last operation failed", "mcm_machine_deployment_failed_machines"+object),
		},
		[]panel{
			graph("Until the VM exists", "Quantiles", seconds, quantiles(histogram, step("create"), "step", "{{step}}")...),
			graph("Until the node is healthy", "Quantiles", seconds, quantiles(histogram, step("join"), "step", "{{step}}")...),
		},
		[]panel{
			graph("Drain", "Quantiles", seconds, quantiles(histogram, step("drain"), "step", "{{step}}")...),
			graph("Deletion", "Quantiles", seconds, quantiles(histogram, step("delete"), "step", "{{step}}")...),
		},
		[]panel{
			graph("Last machine: until the node was healthy", "By type and zone", seconds,
				line{"mcm_machine_join_duration_seconds" + pool, "{{machine_deployment}} {{instance_type}} {{zone}}"}),
			graph("Failed joins", "In an hour", count,
				line{
					"sum by (machine_deployment, instance_type, zone) (increase(mcm_machine_num_failed_join" + pool + "[1h]))",
					"{{machine_deployment}} {{instance_type}} {{zone}}",
				}),
			graph("Kept in an outage", "", count,
				line{"mcm_machine_outage_kept_machines" + pool, "{{namespace}}/{{machine_deployment}}"}),
		})
}
