// Command teeth puts deliberate bugs into copies of the product, one at a time,
// and reports which invariant the simulation finds each with, and after how many
// seeds. The product itself has no switches for that.
package main

import "slices"

// A Bug is a mistake that somebody could make.
type Bug struct {
	Name  string
	Edits []Edit
}

// Edit replaces a text, which the file has exactly once.
type Edit struct{ File, Old, New string }

// Bugs are the mistakes that the simulation must find.
func Bugs() []Bug {
	return slices.Concat(ofMaking(), ofRemoving(), ofCounting(), ofWatching(), ofClusterAPI())
}

// ofMaking are bugs in making machines and VMs.
func ofMaking() []Bug {
	return []Bug{
		{"no expectations: what was just created is not remembered", []Edit{
			{"controllers/machineset/create.go", "live, err := c.survey(ctx, p)\n", "live, err := p.machines, error(nil)\n"},
			{
				"controllers/machineset/memory.go", "func (m *memory) overlay(cached []*machinev1.Machine, now time.Time) " +
					"[]*machinev1.Machine {\n",
				"func (m *memory) overlay(cached []*machinev1.Machine, now time.Time) []*machinev1.Machine {\n\tm.writes = " +
					"map[string]write{}\n",
			},
		}},
		{"names are drawn at random instead of reserved", []Edit{
			{
				"controllers/machineset/reserve.go",
				"if err := c.writeRecord(ctx, p, next); err != nil {\n\t\treturn nil, err\n\t}\n", "",
			},
			{
				"controllers/machineset/create.go", "Name:            names.Name(ordinal),",
				"Name:            names.Name(ordinal) + fmt.Sprint(time.Now().UnixNano()),",
			},
		}},
		{"a VM is created before the intent is written", []Edit{
			{
				"controllers/machine/controller.go",
				"\t\t{\"ensureFinalizer\", \"\", always((*Controller).ensureFinalizer)},\n\t\t{\"launch\", \"\", " +
					"always((*Controller).launch)},\n",
				"\t\t{\"launch\", \"\", always((*Controller).launch)},\n\t\t{\"ensureFinalizer\", \"\", " +
					"always((*Controller).ensureFinalizer)},\n",
			},
			{
				"controllers/machineset/create.go", "\tcontrollerutil.AddFinalizer(m, machinev1.Finalizer)\n\tif m.Annotations",
				"\t_ = controllerutil.AddFinalizer\n\tif m.Annotations",
			},
		}},
		{"every attempt at a VM has a token of its own", []Edit{{
			"controllers/internal/vm/vm.go", "w.Request.Token = Token(w.Request.OwnerID, w.Attempt)\n\te.update(",
			"w.Request.Token = Token(w.Request.OwnerID+e.clock.Now().String(), w.Attempt)\n\te.update(",
		}}},
		{"a new attempt begins without looking for the VM of the one before", []Edit{{
			"controllers/internal/vm/vm.go", "\tfound, err := a.Get(ctx, w.Request.Ref)\n\tif err == nil {",
			"\t_ = asked\n\tfound, err := cloud.VM{}, error(&cloud.Error{Code: cloud.NotFound})\n\tif err == nil {",
		}, {
			"controllers/internal/vm/vm.go", "if wait := e.absenceGraceLeft(w.Request.OwnerID, traits.Settle, asked); wait > 0 " +
				"{\n\t\treturn cloud.VM{}, &cloud.Error{",
			"if wait := time.Duration(0); wait > 0 {\n\t\treturn cloud.VM{}, &cloud.Error{",
		}}},
	}
}

// ofRemoving are bugs in removing VMs and Machines.
func ofRemoving() []Bug {
	return []Bug{
		{"a VM that cannot be seen is believed to be gone", []Edit{{
			"controllers/internal/vm/vm.go", "if !e.absenceUncertain(r, traits.Settle, asked) {", "if !e.absenceUncertain(r, 0, asked) {",
		}}},
		{"a slow answer of the cloud is taken for a new one", []Edit{{
			"controllers/internal/vm/vm.go", "return asked.Sub(created) < settle", "return e.clock.Since(created) < settle",
		}}},
		{"a Machine is let go while its VM is still going", []Edit{{
			"controllers/machine/deletevm.go", "\tif d.Done {\n\t\treturn true, nil\n\t}\n\tp.did",
			"\tif d.Done || d.RetryAfter > 0 {\n\t\treturn true, nil\n\t}\n\tp.did",
		}}},
		{"the drain is skipped", []Edit{{
			"controllers/machine/controller.go", "\t\t{\"drain\", machinev1.StepDrain, (*Controller).drain},\n", "",
		}}},
		{"the drain does not wait for pods to end", []Edit{{
			"controllers/machine/drain.go", "\tif result.Done {\n", "\tif result.Done || result.Wait > 0 {\n",
		}}},
		{"a stale cache is believed after a drain", []Edit{{
			"controllers/machine/controller.go", "Confirm: true", "Confirm: false",
		}}},
	}
}

// ofCounting are bugs in how many machines there are.
func ofCounting() []Bug {
	return []Bug{
		{"surge is off by one", []Edit{{
			"controllers/internal/rollout/newset.go", "room := b.Replicas + b.Surge -", "room := b.Replicas + b.Surge + 1 -",
		}}},
		{"availability is off by one", []Edit{{
			"controllers/internal/rollout/fencepost.go", "return b.Replicas - b.Unavailable }",
			"return b.Replicas - b.Unavailable - 1 }",
		}}},
		{"a set deletes one machine too many", []Edit{{
			"controllers/machineset/scale.go", "return candidates[:count], nil",
			"return candidates[:min(count+1, len(candidates))], nil",
		}}},
	}
}

// ofWatching are bugs in what goes on when nobody asks for anything.
func ofWatching() []Bug {
	return []Bug{
		{"the orphan collector takes no second look, and asks the cache for owners", []Edit{{
			"controllers/safety/orphan/look.go", "\t\towners, err := door.Live(ctx)\n", "\t\towners, err := door, error(nil)\n",
		}, {
			"controllers/safety/orphan/decide.go", "if s.first.IsZero() || r.now.Before(r.ripe(s)) {", "if false {",
		}}},
		{"the orphan collector is forgotten", []Edit{{
			"controllers/safety/orphan/decide.go", "if s.first.IsZero() || r.now.Before(r.ripe(s)) {", "if true {",
		}}},
		{"an unhealthy machine is given up at once", []Edit{{
			"controllers/machine/health.go", "if wait := s.health - now.Sub(since); wait > 0 {",
			"if wait := time.Minute - now.Sub(since); wait > 0 {",
		}}},
		{"machines are replaced one by one while a zone is cut off", []Edit{{
			"controllers/machine/outage.go", "if c.Options.IgnoreOutages || c.protectionExpired(p) {", "if true {",
		}}},
		{"a failed creation is not repeated", []Edit{{
			"controllers/machine/launch.go", "\trequeueAfter(p, wait)\n\trequeueAfter(p, " +
				"p.seen.settings.creation-p.seen.now.Sub(p.machine.CreationTimestamp.Time))\n\treturn nil",
			"\trequeueAfter(p, wait*0)\n\treturn nil",
		}}},
		{"a status is written although it is as it was", []Edit{{
			"controllers/machineset/status.go", "\tif equality.Semantic.DeepEqual(p.set.Status, status) {\n\t\treturn nil\n\t}\n", "\t_ = equality.Semantic\n",
		}}},
		{"a reconcile panics on a Machine without a class", []Edit{{
			"controllers/internal/vm/life.go", "\tif !exists && !resolved.Protected {\n",
			"\tif !exists && resolved.Object.DeletionTimestamp == nil && !resolved.Protected {\n\t\tpanic(\"unprotected\")\n\t}\n\t" +
				"if !exists && !resolved.Protected {\n",
		}}},
	}
}

// ofClusterAPI are bugs of Cluster API's door.
func ofClusterAPI() []Bug {
	return []Bug{
		{"the VM of a MCMMachine is asked for before that is written down", []Edit{{
			"controllers/internal/vm/life.go",
			"\tif err := o.RecordIntent(ctx); err != nil {\n\t\treturn fmt.Errorf(\"record intent: %w\", err)\n\t}\n", "",
		}}},
		{"a MCMMachine whose VM has vanished gets another", []Edit{{
			"controllers/inframachine/checkvm.go", "\tp.did.vmCondition = conditionFalse(infrav1.ReasonInstanceNotFound, fmt.Sprintf(",
			"\tif err := c.patch(context.Background(), p, func(o *infrav1.MCMMachine) { o.Spec.ProviderID = \"\" }); err != " +
				"nil {\n\t\treturn err\n\t}\n\tp.did.vmCondition = conditionFalse(infrav1.ReasonInstanceNotFound, fmt.Sprintf(",
		}}},
		{"a MCMMachine is let go while its VM is still going", []Edit{{
			"controllers/inframachine/delete.go", "\tif d.Done {\n\t\treturn true, nil\n\t}\n",
			"\tif d.Done || d.RetryAfter > 0 {\n\t\treturn true, nil\n\t}\n",
		}}},
		{"MCMMachines of a paused Cluster are acted upon", []Edit{{
			"controllers/inframachine/controller.go", "\tcase p.seen.paused != \"\":\n\t\treturn nil\n", "",
		}, {
			"controllers/inframachine/controller.go", ", capi.Moving(object):", ":",
		}}},
		{"the collector takes what belongs to a Cluster that is not here", []Edit{{
			"controllers/safety/orphan/clusterapi.go", "\t\tat.held = \"its Cluster is not here\"\n", "",
		}, {
			"controllers/safety/orphan/clusterapi.go", "\tif len(list.Items) != 1 {\n",
			"\tif len(list.Items) == 0 {\n\t\treturn home{}, nil\n\t}\n\tif len(list.Items) != 1 {\n",
		}}},
		{"the native collector takes what belongs to Clusters", []Edit{{
			"controllers/safety/orphan/owners.go", "return !ofClusterAPI(r) }", "return true }",
		}}},
	}
}
