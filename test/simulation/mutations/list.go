package main

import "slices"

// A Mutation is a mistake that somebody could make in the product.
type Mutation struct {
	Name    string
	Targets []Target
}

// Target is a change of one function.
type Target struct {
	Package string // folder, from the root of the repository
	Func    string // f, T.f or (*T).f
	Edit    Edit
}

// Mutations are the mistakes that the simulation must find.
func Mutations() []Mutation {
	return slices.Concat(creations(), attempts(), fallbacks(), deletions(), accounts(), drains(), counts(), orphans(),
		health(), writes(), clusterAPI(), strips())
}

// creations are mistakes in creating Machines.
func creations() []Mutation {
	const machineset = "controllers/machineset"
	return []Mutation{
		{"no expectations: what was just created is not remembered", []Target{
			{machineset, "(*Controller).createMachines", Replace(`c.listLiveMachines(x, s)`, `s.machines, error(nil)`)},
			{"controllers/internal/fresh", "(*Writes).Complete", Begin(`clear(recv.pending)`)},
		}},
		{"names are drawn at random instead of reserved", []Target{
			{machineset, "(*Controller).reserveOrdinals", Drop(`c.writeOrdinals(x, s, r)`)},
			{machineset, "(*Controller).createMachine", Replace(`newMachine(s, n)`,
				`func() *machinev1.Machine { made := newMachine(s, n); `+
					`made.Name += recv.Clock.Now().Format("-150405.000000000"); return made }()`)},
		}},
		{"a VM is created before the intent is written", []Target{
			{"controllers/machine", "joinSteps", Swap(`(*Controller).ensureFinalizer`, `(*Controller).launch`)},
			{machineset, "newMachine", Drop(`controllerutil.AddFinalizer(m, f)`)},
		}},
	}
}

// attempts are mistakes in asking a cloud for a VM.
func attempts() []Mutation {
	const engine = "controllers/internal/vm"
	return []Mutation{
		{"every attempt at a VM has a token of its own", []Target{
			{engine, "(*Engine).ensure", Replace(`Token(i, n)`, `Token(i+recv.clock.Now().String(), n)`)},
		}},
		{"what a request without an answer creates is not waited for", []Target{
			{engine, "(*Engine).inFlight", Body(`return 0`)},
		}},
		{"a new attempt begins without looking for the VM of the one before", []Target{
			{engine, "(*Engine).nextAttempt", Replace(`a.Get(x, r)`, `cloud.VM{}, error(&cloud.Error{Code: cloud.NotFound})`)},
			{engine, "(*Engine).nextAttempt", Replace(`e.absenceGraceLeft(i, s, t)`, `t.Sub(t)`)},
		}},
	}
}

// fallbacks are mistakes in choosing among the classes of a pool.
func fallbacks() []Mutation {
	return []Mutation{
		{"a machine waits for its exhausted class although another one has room", []Target{
			{"controllers/internal/fallback", "(*Memory).Next", Body(`return Candidate{}, false`)},
		}},
		{"a class follows without a look for the VM of the one before", []Target{
			{"controllers/internal/fallback", "Refusal", Replace(`e.Code == cloud.Exhausted`, `true`)},
			{"controllers/internal/vm", "(*Engine).SwitchClass", Replace(`e.Delete(x, o)`, `(Upkeep{Done: true}), error(nil)`)},
			{"controllers/internal/vm", "(*Engine).adopt", Body(`return false, nil`)},
		}},
		{"no VM is looked for that a restore has made unknown", []Target{
			{"controllers/internal/vm", "(*Engine).findUnrecordedVM", Body(`return cloud.VM{}, false, nil`)},
		}},
	}
}

// deletions are mistakes in deleting VMs and Machines.
func deletions() []Mutation {
	const engine = "controllers/internal/vm"
	return []Mutation{
		{"a VM that cannot be seen is believed to be gone", []Target{
			{engine, "(*Engine).remove", Replace(`e.absenceUncertain(r, s, t)`, `e.absenceUncertain(r, 0, t)`)},
		}},
		{"the finalizer of a Machine is removed while its VM is still being deleted", []Target{
			{"controllers/machine", "(*Controller).deleteVM", Replace(`d.Done`, `(d.Done || d.RetryAfter > 0)`)},
		}},
	}
}

// accounts are mistakes about the account of the cloud in which a VM is.
func accounts() []Mutation {
	return []Mutation{
		{"another account is believed about a machine's VM", []Target{
			{"cloud/wrap", "(*scoped).compare", Begin(`return pair, true, nil`)},
		}},
		{"the account of a VM is not recorded", []Target{
			{"controllers/internal/vm", "ReadState", Replace(`g[machinev1.CloudScopeAnnotation]`, `""`)},
		}},
	}
}

// drains are mistakes in draining nodes.
func drains() []Mutation {
	return []Mutation{
		{"the drain is skipped", []Target{
			{"controllers/machine", "(*Controller).drain", Body(`return true, nil`)},
		}},
		{"the drain does not wait for pods to end", []Target{
			{"controllers/machine", "(*Controller).drainNode", Replace(`r.Done`, `(r.Done || r.Wait > 0)`)},
		}},
		{"a stale cache is believed after a drain", []Target{
			{"controllers/internal/drain", "New", Replace(`d.Confirm`, `false`)},
		}},
	}
}

// counts are mistakes in how many machines there are.
func counts() []Mutation {
	const rollout = "controllers/internal/rollout"
	return []Mutation{
		{"surge is off by one", []Target{
			{rollout, "NewReplicas", Replace(`b.Surge`, `(b.Surge + 1)`)},
		}},
		{"availability is off by one", []Target{
			{rollout, "Bounds.MinAvailable", Replace(`b.Unavailable`, `(b.Unavailable + 1)`)},
		}},
		{"a set deletes one machine too many", []Target{
			{"controllers/machineset", "(*Controller).keepAvailable", Replace(`a[:n]`, `a[:min(n+1, len(a))]`)},
		}},
		{"a paused rollout goes on", []Target{
			{rollout, "PausedTo", Body(`return false`)},
		}},
		{"a set deletes machines that its deployment needs again", []Target{
			{"controllers/machineset", "(*Controller).keepAvailable", Begin(`return arg2[:arg3], nil`)},
		}},
	}
}

// orphans are mistakes in collecting what no machine owns.
func orphans() []Mutation {
	const orphan = "controllers/safety/orphan"
	return []Mutation{
		{"the orphan collector takes no second look, and asks the cache for owners", []Target{
			{orphan, "readLive", Replace(`d.Live(x)`, `d, error(nil)`)},
			{orphan, "rules.orphan", Replace(`s.firstSeen.IsZero() || x`, `false`)},
		}},
		{"the orphan collector never removes anything", []Target{
			{orphan, "rules.orphan", Replace(`s.firstSeen.IsZero() || x`, `true`)},
		}},
		{"orphans are removed however many there are", []Target{
			{orphan, "(*Controller).brake", Begin(`return arg2, nil`)},
		}},
		{"what outlives a VM goes with it all the same", []Target{
			{"cloud/sim", "retentionOf", Begin(`return ""`)},
		}},
		{"the collector takes what belongs to a Cluster that is not here", []Target{
			{orphan, "(*mcmSnapshot).Find", Drop(`a.held`)},
			{orphan, "(*mcmMachines).originByID", Before(`len(l.Items) != 1`, `if len(l.Items) == 0 { return origin{}, nil }`)},
		}},
		{"the native collector takes what belongs to Clusters", []Target{
			{orphan, "native.Judges", Body(`return true`)},
		}},
	}
}

// health are mistakes in giving machines up.
func health() []Mutation {
	const machine = "controllers/machine"
	return []Mutation{
		{"an unhealthy machine is given up at once", []Target{
			{machine, "evaluateHealthTimeout", Replace(`s.health`, `time.Minute`)},
		}},
		{"machines are replaced one by one while a zone is cut off", []Target{
			{machine, "(*Controller).applyOutageProtection", Replace(`c.Brake.IgnoreOutages || x`, `true`)},
		}},
	}
}

// writes are mistakes in when something is tried again, or written.
func writes() []Mutation {
	return []Mutation{
		{"a failed creation is not repeated", []Target{
			{"controllers/machine", "(*Controller).launchFailed", Replace(`requeueAfter(p, x)`, `requeueAfter(p, (x)*0)`)},
		}},
		{"a write that a restore has undone is waited for", []Target{
			{"controllers/internal/fresh", "(*Client).lost", Body(`return false, nil`)},
		}},
		{"a controller that has written does not look again", []Target{
			{"controllers/internal/fresh", "Recheck", Replace(`result.IsZero()`, `false`)},
		}},
		{"a status is written although nothing changed", []Target{
			{"controllers/machineset", "(*Controller).report", Drop(`equality.Semantic.DeepEqual(a, b)`)},
		}},
		{"a reconcile panics on a Machine whose class has no finalizer yet", []Target{
			{"controllers/internal/vm", "(*Engine).usableClass", Before(`!r.Protected`,
				`if r.Object.DeletionTimestamp == nil && !r.Protected { panic("unprotected") }`)},
		}},
	}
}

// strips are mistakes in giving back what a tool has stripped an object of.
func strips() []Mutation {
	const engine = "controllers/internal/vm"
	return []Mutation{
		{"the UID stands in for an owner id that was stripped, and is not compared with the VM", []Target{
			{"controllers/machine", "(*Controller).ownerIDGivenBySet", Body(`return "", nil`)},
			{engine, "(*Engine).Recall", Body(`return nil`)},
			{engine, "(*Engine).identify", Body(`return false, nil`)},
		}},
	}
}

// clusterAPI are mistakes in the controllers of the Cluster API.
func clusterAPI() []Mutation {
	const mcmmachine = "controllers/mcmmachine"
	return []Mutation{
		{"the VM of an MCMMachine is asked for before that is written down", []Target{
			{"controllers/internal/vm", "(*Machine).recordIntent", Body(`return nil`)},
		}},
		{"an MCMMachine whose VM has vanished gets another", []Target{
			{mcmmachine, "(*Controller).vmNotFound", Before(`infrav1.ReasonInstanceNotFound`,
				`if err := recv.patch(context.Background(), arg0, func(o *infrav1.MCMMachine) { o.Spec.ProviderID = "" }); `+
					`err != nil { return err }`)},
		}},
		{"the finalizer of an MCMMachine is removed while its VM is still being deleted", []Target{
			{mcmmachine, "(*Controller).deleteVM", Replace(`d.Done`, `(d.Done || d.RetryAfter > 0)`)},
		}},
		{"MCMMachines of a paused Cluster are acted upon", []Target{
			{mcmmachine, "(*Controller).act", Replace(`f.paused != ""`, `false`)},
			{mcmmachine, "(*Controller).Reconcile", Replace(`capi.Moving(o)`, `false`)},
		}},
	}
}
