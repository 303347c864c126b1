package play

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	model "github.com/capmcm/cluster-api-provider-mcm/test/simulation/apiserver"
	"github.com/capmcm/cluster-api-provider-mcm/test/simulation/mirror"
)

// weather is what is wrong right now, and until when.
type weather struct {
	down     map[*model.Server]time.Time // does not answer
	full     map[*model.Server]time.Time // the disk of its etcd is full: it refuses writes
	storm    map[*model.Server]time.Time // answers badly
	odds     float64                     // of a bad answer in a storm
	rain     time.Time                   // the cloud answers badly
	rainOdds float64
	dark     time.Time            // the cloud does not answer
	lag      [2]time.Time         // caches of the control and the target cluster show nothing new
	cut      map[string]time.Time // zones whose nodes are cut off
	guarded  time.Time            // disruption budgets allow nothing
	slow     time.Time            // requests and answers take seconds

	unjoinable time.Time // VMs that are created do not join
	astray     time.Time // until then, the next request to create a VM arrives late
}

func newWeather() weather {
	return weather{
		down: map[*model.Server]time.Time{}, full: map[*model.Server]time.Time{},
		storm: map[*model.Server]time.Time{}, cut: map[string]time.Time{},
	}
}

// lagging is until when the i-th cache of a process shows nothing new.
func (s *weather) lagging(p *process, i int) time.Time {
	until := s.lag[min(i, 1)]
	if down := s.down[p.mirrors[i].Server()]; down.After(until) {
		until = down
	}
	return until
}

// isSilent reports whether a server does not answer.
func (w *World) isSilent(s *model.Server) bool { return w.weather.down[s].After(w.now) }

// isDown reports whether a server does not answer, or refuses all writes.
func (w *World) isDown(s *model.Server) bool { return w.isSilent(s) || w.weather.full[s].After(w.now) }

// isCut reports whether a zone is cut off.
func (w *World) isCut(zone string) bool { return w.weather.cut[zone].After(w.now) }

// request is what becomes of a request to an API server.
func (s *weather) request(w *World, server *model.Server, c mirror.Call) (trouble, error) {
	if w.isSilent(server) {
		return refused, fmt.Errorf("%s: %w", c.Kind.Resource, errRefused)
	}
	if w.isDown(server) && !c.Read {
		return refused, apierrors.NewInternalError(errFull)
	}
	if s.storm[server].After(w.now) && w.chance(s.odds) {
		return fault(c.Kind, c.Key.Name, int(w.rng.Uint32()>>1))
	}
	return fine, nil
}

// heal ends all trouble. What was broken by hand is repaired, and there is one
// manager.
func (w *World) heal() {
	w.trace("all trouble ends")
	w.healing = true
	w.weather = newWeather()
	w.Cloud.RemoveFault(0)
	w.closeOtherAccount()
	w.plentiful()
	w.repair()
	for _, k := range w.sortedKubelets() {
		k.sick, k.lost = false, false
		w.nodeOf(k)
	}
	for _, p := range w.processes {
		if !p.isCommand() {
			p.crashIn = 0
		}
	}
	w.reconnect(0)
	w.resumeSoon()
	for i := 0; i < len(w.processes); {
		p := w.processes[i]
		if !p.isCommand() && slices.ContainsFunc(w.processes[i+1:], p.same) {
			w.crash(p, "another one leads")
			continue
		}
		i++
	}
}

// faults are what can happen, by name.
func faults() map[string]func(*World, Event) {
	all := commonFaults()
	maps.Copy(all, nativeFaults())
	maps.Copy(all, clusterAPIFaults())
	maps.Copy(all, incidentFaults())
	return all
}

// commonFaults are those that do not depend on an API.
func commonFaults() map[string]func(*World, Event) {
	return map[string]func(*World, Event){
		// The manager.
		"crash":        (*World).crashSoon,
		"kill":         (*World).kill,
		"two leaders":  (*World).twoLeaders,
		"blind leader": (*World).blindLeader,
		"lag":          (*World).lagBehind,
		// The API servers.
		"bad answers": func(w *World, e Event) {
			w.weather.storm[w.pickServer(e)], w.weather.odds = w.now.Add(e.For), 0.1+float64(e.N%8)/10
		},
		"server down": (*World).serverDown,
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
		"delete node":  (*World).deleteNode,
		"break class":  (*World).breakClass,
		"break secret": (*World).breakSecret,
	}
}

// inject has a fault or a user's action happen.
func (w *World) inject(e Event) {
	if w.healing {
		return
	}
	w.trace("EVENT %s (%d) for %s", e.What, e.N, e.For)
	faults()[e.What](w, e)
}

func (w *World) crashSoon(e Event) {
	if p := w.manager(e); p != nil {
		p.crashIn = 1 + int(e.N>>8)%40
	}
}

// manager chooses a process of a manager; nil if there is none.
func (w *World) manager(e Event) *process {
	all := slices.DeleteFunc(slices.Clone(w.processes), (*process).isCommand)
	if len(all) == 0 {
		return nil
	}
	return all[int(e.N)%len(all)]
}

func (w *World) kill(e Event) {
	if p := w.manager(e); p != nil {
		w.crash(p, "it is killed")
		w.again(p, max(leaseDuration-retryPeriod, min(e.For, 5*time.Minute)))
	}
}

// twoLeaders has a manager lose its leases. It goes on for a while without knowing
// it, beside its successor.
func (w *World) twoLeaders(e Event) {
	if first := w.leader(e); first != nil {
		w.contested = true
		w.depose(first)
		w.retire(first, min(e.For, time.Minute), "it lost its leases")
	}
}

// leader chooses a process without another leader beside it; nil if there is none.
func (w *World) leader(e Event) *process {
	p := w.manager(e)
	if p == nil {
		return nil
	}
	for _, o := range w.processes {
		if o != p && o.same(p) {
			return nil
		}
	}
	return p
}

// same reports whether two processes are the same manager, one after the other.
func (p *process) same(o *process) bool { return p.home == o.home && slices.Equal(p.groups, o.groups) }

// blindLeader is two leaders, of which the old one's cache of machines stands
// still, while it is asked to look for orphans as soon as there is a new VM.
func (w *World) blindLeader(e Event) {
	old := w.leader(e)
	if old == nil {
		return
	}
	w.depose(old)
	old.blind, w.contested = true, true
	w.ambush = append(w.ambush, func(string) {
		w.after(w.between(3*time.Second, 20*time.Second), func() { w.lookForOrphans("blind " + w.now.String()) })
	})
	if e.N%2 == 0 {
		w.deleteMachine(e)
		w.deleteWorker(e)
	} else {
		w.scale(Event{N: e.N})
		w.scaleWorkers(Event{N: e.N})
	}
	w.retire(old, max(min(e.For, 5*time.Minute), 2*time.Minute), "it lost its leases long ago")
}

// retire ends a process that has a successor. Should that have come to grief
// meanwhile, another one follows.
func (w *World) retire(p *process, after time.Duration, why string) {
	w.after(after, func() {
		w.crash(p, why)
		w.again(p, connecting)
	})
}

// isBlind reports whether a cache stands still because its process is blind for machines.
func (p *process) isBlind(k *model.Kind) bool {
	return p.blind && strings.HasSuffix(k.Resource.Resource, "machines")
}

func (w *World) serverDown(e Event) {
	w.weather.down[w.pickServer(e)] = w.now.Add(e.For)
	w.reconnect(min(e.For, probing))
	w.after(e.For+time.Millisecond, func() { w.reconnect(w.between(0, connecting)) })
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
		Op: ops[int(e.N)%len(ops)], Mode: modes[int(e.N>>4)%len(modes)], Count: 1 + int(e.N>>8)%6,
		RetryAfter: sim.Duration(e.N >> 12 % 5 * uint32(time.Second)), Account: account,
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
	if w.plan.Fallbacks && !w.plan.Zones && len(w.plan.Workers) == 0 && !w.anyWithoutSet() {
		w.Cloud.SetCapacity(zones()[0], "small", 0) // for good: the other classes have room
	}
}

// stray makes a VM that no machine knows, as one of an older manager that was
// interrupted; some are of the Cluster.
func (w *World) stray(e Event) {
	tags := ownership()
	tags[sim.NameTag] = "stray"
	if h := w.clusterHome(); h != nil && e.N>>7%3 > 0 {
		infra, _ := find[*infrav1.MCMCluster](h.server, clusterName)
		if infra != nil && infra.Annotations[machinev1.OwnerIDAnnotation] != "" {
			tags[machinev1.ClusterIDTag] = infra.Annotations[machinev1.OwnerIDAnnotation]
			tags[machinev1.ClusterNameTag], tags[machinev1.ClusterNamespaceTag] = clusterName, namespace
			tags[machinev1.OwnerIDAnnotation] = fmt.Sprintf("stray-%d", e.N)
		}
	}
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
