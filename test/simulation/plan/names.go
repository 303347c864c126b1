package plan

import "slices"

// common are the names of what does not depend on an API.
func common() []string {
	return []string{
		"crash", "kill", "two leaders", "blind leader", "lag", "bad answers", "server down", "guarded",
		"cloud rain", "cloud dark", "cloud fault", "exhausted", "quota", "slow cloud", "stray VM", "hasty user",
		"reclaim", "VM fails", "VM stops", "zone cut", "sick", "lost", "delete node", "break class",
		"break secret",
	}
}

// native are the names of what a user of the native API does.
func native() []string {
	return []string{
		"scale", "roll", "pause", "node template", "delete machine", "force deletion", "relabel", "priority",
		"delete deployment", "strategy",
	}
}

// clusterAPI are the names of what a user of Cluster API does.
func clusterAPI() []string {
	return []string{
		"scale workers", "roll workers", "pause cluster", "delete worker", "delete MCMMachine", "pause MCMMachine",
		"retain", "delete cluster", "move", "adopt", "look for orphans",
	}
}

// together are the names of what comes only together with other events.
func together() []string {
	return []string{
		"copy by hand", "slow requests", "look for orphans", "rezone", "grow", "restore", "disk full", "no joins",
		"resume rollouts", "late request", "other account", "strip",
	}
}

// menu are the names of what can happen by itself to the world of a plan, sorted.
func (p *Plan) menu() []string {
	all := common()
	if len(p.Pools) > 0 {
		all = append(all, native()...)
	}
	if len(p.Workers) > 0 {
		all = append(all, clusterAPI()...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Names are the names of all that can happen, sorted.
func Names() []string {
	all := slices.Concat(common(), native(), clusterAPI(), together())
	slices.Sort(all)
	return slices.Compact(all)
}
