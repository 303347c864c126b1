package play

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	model "github.com/capmcm/cluster-api-provider-mcm/test/simulation/apiserver"
)

// blows are what can happen, by name.
func blows() map[string]func(*World, Event) {
	return map[string]func(*World, Event){
		// The manager.
		"crash":       (*World).crashSoon,
		"kill":        (*World).kill,
		"two leaders": (*World).twoLeaders,
		"lag":         (*World).lagBehind,
		// The API servers.
		"bad answers": func(w *World, e Event) {
			w.weather.storm[w.pickServer(e)], w.weather.odds = w.now.Add(e.For), 0.1+float64(e.N%8)/10
		},
		"server down": func(w *World, e Event) { w.weather.down[w.pickServer(e)] = w.now.Add(e.For) },
		"guarded":     func(w *World, e Event) { w.weather.guarded = w.now.Add(e.For) },
		// The cloud.
		"cloud rain": func(w *World, e Event) {
			w.weather.rain, w.weather.rainOdds = w.now.Add(e.For), 0.1+float64(e.N%8)/10
		},
		"cloud dark":  func(w *World, e Event) { w.weather.dark = w.now.Add(e.For) },
		"cloud fault": (*World).cloudFault,
		"exhausted":   (*World).exhaust,
		"quota":       (*World).quota,
		"slow cloud":  (*World).slowCloud,
		"stray VM":    (*World).stray,
		"hasty user":  (*World).hasty,
		// VMs and nodes.
		"reclaim": func(w *World, e Event) { w.onVM(e, func(id string) { w.Cloud.Reclaim(id) }) },
		"VM fails": func(w *World, e Event) {
			w.onVM(e, func(id string) { w.Cloud.Fail(id, "HardwareFailure", "the host has failed") })
		},
		"VM stops": func(w *World, e Event) { w.onVM(e, func(id string) { w.Cloud.Stop(id) }) },
		"zone cut": (*World).cutZone,
		"sick":     func(w *World, e Event) { w.onKubelet(e, func(k *kubelet, bad bool) { k.sick = bad }) },
		"lost":     func(w *World, e Event) { w.onKubelet(e, func(k *kubelet, bad bool) { k.lost = bad }) },
		// The user.
		"scale":             (*World).scale,
		"roll":              (*World).roll,
		"pause":             (*World).pause,
		"node template":     (*World).nodeTemplate,
		"delete machine":    (*World).deleteMachine,
		"force deletion":    (*World).forceDeletion,
		"delete node":       (*World).deleteNode,
		"relabel":           (*World).relabel,
		"priority":          (*World).priority,
		"delete deployment": (*World).deleteDeployment,
		"break class":       (*World).breakClass,
		"break secret":      (*World).breakSecret,
		"strategy":          (*World).strategy,
	}
}

// menu are the names of all that can happen.
func menu() []string {
	var names []string
	for name := range blows() {
		names = append(names, name)
	}
	return names
}

// strike has an event happen.
func (w *World) strike(e Event) {
	if w.healing {
		return
	}
	w.trace("EVENT %s (%d) for %s", e.What, e.N, e.For)
	blows()[e.What](w, e)
}

func (w *World) crashSoon(e Event) {
	if len(w.processes) > 0 {
		w.processes[int(e.N)%len(w.processes)].crashIn = 1 + int(e.N>>8)%40
	}
}

func (w *World) kill(e Event) {
	if len(w.processes) > 0 {
		w.crash(w.processes[int(e.N)%len(w.processes)], "it is killed")
		w.after(min(e.For, 5*time.Minute), w.start)
	}
}

// twoLeaders starts a second manager; the first goes on for a while, as one that
// has lost its leases and does not know it.
func (w *World) twoLeaders(e Event) {
	if len(w.processes) != 1 {
		return
	}
	first := w.processes[0]
	w.start()
	w.after(min(e.For, time.Minute), func() { w.crash(first, "it lost its leases") })
}

func (w *World) lagBehind(e Event) {
	if e.N%4 != 1 {
		w.weather.lag[0] = w.now.Add(e.For)
	}
	if e.N%4 > 0 {
		w.weather.lag[1] = w.now.Add(e.For)
	}
}

func (w *World) pickServer(e Event) *model.Server {
	all := w.servers()
	return all[int(e.N>>10)%len(all)]
}

func (w *World) cloudFault(e Event) {
	ops := []string{sim.OpCreateVM, sim.OpDeleteVM, sim.OpList, sim.OpGetVM, sim.OpCreateDisk, sim.OpSetForwarding, "*"}
	modes := []string{sim.FaultBefore, sim.FaultAfter, sim.FaultDrop, sim.FaultLost, sim.FaultThrottle, sim.FaultBoot}
	undo := w.Cloud.AddFault(sim.Fault{
		Op: ops[int(e.N)%len(ops)], Mode: modes[int(e.N>>4)%len(modes)], Count: 1 + int(e.N>>8)%6, RetryAfter: sim.Duration(e.N >> 12 % 5 * uint32(time.Second)),
	})
	w.after(e.For, undo)
}

func (w *World) exhaust(e Event) {
	zone := zones()[int(e.N)%len(zones())]
	w.Cloud.SetCapacity(zone, "small", int(e.N>>4)%3)
	w.after(e.For, func() { w.Cloud.SetCapacity(zone, "small", -1) })
}

func (w *World) quota(e Event) {
	w.Cloud.Change(func(s *sim.Settings) { s.Accounts[0].VMQuota = 1 + int(e.N)%3 })
	w.after(e.For, func() { w.Cloud.Change(func(s *sim.Settings) { s.Accounts[0].VMQuota = 0 }) })
}

func (w *World) slowCloud(e Event) {
	w.Cloud.Change(func(s *sim.Settings) {
		s.BootTime, s.DeleteTime = sim.Duration(w.between(0, 10*time.Minute)), sim.Duration(w.between(0, 10*time.Minute))
	})
	w.after(e.For, w.usualCloud)
}

func (w *World) usualCloud() {
	w.Cloud.Change(func(s *sim.Settings) {
		s.BootTime, s.DeleteTime = sim.Duration(w.plan.Boot), sim.Duration(w.plan.Delete)
	})
}

// plentiful ends what the cloud lacks.
func (w *World) plentiful() {
	w.usualCloud()
	w.Cloud.Change(func(s *sim.Settings) { s.Accounts[0].VMQuota = 0 })
	for _, zone := range zones() {
		w.Cloud.SetCapacity(zone, "small", -1)
	}
}

// stray makes a VM that no machine knows, as one of an older manager that was
// interrupted.
func (w *World) stray(e Event) {
	tags := ownership()
	tags[sim.NameTag] = "stray"
	_, err := w.Cloud.CreateVM(sim.Login{Account: account, Secret: secretKey}, region, sim.VMInput{
		Zone: zones()[int(e.N)%len(zones())], InstanceType: "small", Image: "linux-1", Tags: tags,
	})
	w.trace("stray VM: %v", err)
}

func (w *World) onVM(e Event, do func(id string)) {
	var running []string
	for _, k := range w.sortedKubelets() {
		if k.running {
			running = append(running, k.vm)
		}
	}
	if len(running) > 0 {
		do(running[int(e.N)%len(running)])
	}
}

func (w *World) onKubelet(e Event, set func(k *kubelet, bad bool)) {
	var joined []*kubelet
	for _, k := range w.sortedKubelets() {
		if k.running && k.joined {
			joined = append(joined, k)
		}
	}
	if len(joined) == 0 {
		return
	}
	k := joined[int(e.N)%len(joined)]
	w.trace("it strikes %s", k.name)
	set(k, true)
	w.nodeOf(k)
	w.after(e.For, func() {
		set(k, false)
		w.nodeOf(k)
	})
}

func (w *World) cutZone(e Event) {
	zone := zones()[int(e.N)%len(zones())]
	w.weather.cut[zone] = w.now.Add(e.For)
	turn := func() {
		for _, k := range w.sortedKubelets() {
			if k.zone == zone {
				w.nodeOf(k)
			}
		}
	}
	turn()
	w.after(e.For+time.Millisecond, turn)
}

// healthOf is how the node of that name is in truth: since when the VM runs and
// its kubelet speaks; false if it does not.
func (w *World) healthOf(node string) bool {
	n, ok := w.Target.KindOf(&corev1.Node{}).Look(nodeKey(node)).(*corev1.Node)
	return ok && n.DeletionTimestamp.IsZero() && isReady(n)
}
