package main

// fleet is the first look: does everything work, and where does it not?
func fleet() dashboard {
	const in = `{namespace=~"$namespace"}`
	return newDashboard("capmcm-fleet", "Machines: fleet", "All machines of both APIs, and what needs a person.",
		[]variable{choice("namespace", "Namespace", `{__name__=~"mcm_machine_info|mcm_mcmmachine_info"}`)},
		[]panel{
			number("Leaders", "APIs whose controllers run", `count(max by (api_group) (mcm_manager_leading) == 1)`, 0),
			number("Machines", "of the native API", `sum(max by (job) (mcm_machine_items_total))`, 0),
			number("MCMMachines", "of Cluster API", `count(mcm_mcmmachine_info`+in+`)`, 0),
			number("Frozen", "An API server does not answer", `max(mcm_machine_controller_frozen)`, 1),
			number("Kept in an outage", "Nodes were lost together", `sum(mcm_machine_outage_kept_machines)`, 1),
			number("Orphans to decide about", "VMs without a machine that are held", `sum(mcm_safety_orphans_held)`, 1),
		},
		[]panel{
			graph("Machines by phase", "Of the native API", count,
				line{`count(mcm_machine_current_status_phase` + in + ` == 1)`, "Running"},
				line{`count(mcm_machine_current_status_phase` + in + ` == 0)`, "Pending and others"},
				line{`count(mcm_machine_current_status_phase` + in + ` == -1)`, "Unknown"},
				line{`count(mcm_machine_current_status_phase` + in + ` == -2)`, "CrashLoopBackOff"},
				line{`count(mcm_machine_current_status_phase` + in + ` == -3)`, "Failed"},
				line{`count(mcm_machine_current_status_phase` + in + ` == -4)`, "Terminating"}),
			graph("MCMMachines", "Of Cluster API", count,
				line{`sum(mcm_mcmmachine_provisioned` + in + `)`, "with a VM"},
				line{`count(mcm_mcmmachine_provisioned` + in + ` == 0)`, "without a VM"},
				line{`count(mcm_mcmmachine_status_condition{namespace=~"$namespace",condition="Ready"} != 1)`, "not ready"},
				line{`count(mcm_mcmmachine_deletion_timestamp_seconds` + in + `)`, "being deleted"}),
		},
		[]panel{
			table("Alerts", "Those of docs/monitoring.md that fire", `ALERTS{alertname=~"MCM.+",alertstate="firing"}`),
			table("Pools that lack machines", "Asked for, less available", `mcm_machine_deployment_info_spec_replicas`+in+
				` - on (namespace, name) mcm_machine_deployment_status_available_replicas`+in+` > 0`),
		},
		[]panel{
			graph("Replaced machines", "Because their nodes were unhealthy, in an hour", count,
				line{`sum(increase(mcm_machine_stale_machines_total[1h]))`, "replaced"}),
			graph("Failed joins", "Nodes that did not join in time, in an hour", count,
				line{
					`sum by (namespace, machine_deployment) (increase(mcm_machine_num_failed_join` + in + `[1h]))`,
					"{{namespace}}/{{machine_deployment}}",
				}),
			table("Clusters and control planes", "Those of Cluster API that are not ready",
				`mcm_mcmcluster_provisioned`+in+` == 0 or mcm_mcmexternalcontrolplane_initialized`+in+` == 0`),
		},
		[]panel{
			graph("Conditions of MCMMachines that are not True", "By reason", count,
				line{`count by (condition, reason) (mcm_mcmmachine_status_condition{namespace=~"$namespace",` +
					`condition!="Paused",condition!="Deleting"} != 1)`, "{{condition}} {{reason}}"}),
			graph("Objects held for a migration", "", count,
				line{`sum by (kind, answered) (mcm_migration_held_objects` + in + `)`, "{{kind}}, answered {{answered}}"}),
		})
}
