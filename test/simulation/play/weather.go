package play

import (
	"fmt"
	"slices"
	"time"

	model "github.com/capmcm/cluster-api-provider-mcm/test/simulation/apiserver"
	"github.com/capmcm/cluster-api-provider-mcm/test/simulation/mirror"
)

// weather is what is wrong right now, and until when.
type weather struct {
	down     map[*model.Server]time.Time // does not answer
	storm    map[*model.Server]time.Time // answers badly
	odds     float64                     // of a bad answer in a storm
	rain     time.Time                   // the cloud answers badly
	rainOdds float64
	dark     time.Time            // the cloud does not answer
	lag      [2]time.Time         // caches of the control and the target cluster show nothing new
	cut      map[string]time.Time // zones whose nodes are cut off
	guarded  time.Time            // disruption budgets allow nothing
}

func newWeather() weather {
	return weather{down: map[*model.Server]time.Time{}, storm: map[*model.Server]time.Time{}, cut: map[string]time.Time{}}
}

// lagging is until when the i-th cache of a process shows nothing new.
func (s *weather) lagging(p *process, i int) time.Time {
	until := s.lag[min(i, 1)]
	if down := s.down[p.mirrors[i].Server()]; down.After(until) {
		until = down
	}
	return until
}

// isDown reports whether a server does not answer.
func (w *World) isDown(s *model.Server) bool { return w.weather.down[s].After(w.now) }

// isCut reports whether a zone is cut off.
func (w *World) isCut(zone string) bool { return w.weather.cut[zone].After(w.now) }

// request is what becomes of a request to an API server.
func (s *weather) request(w *World, server *model.Server, c mirror.Call) (trouble, error) {
	if w.isDown(server) {
		return refused, fmt.Errorf("%s: %w", c.Kind.Resource, errRefused)
	}
	if s.storm[server].After(w.now) && w.chance(s.odds) {
		return fault(c.Kind, c.Key.Name, int(w.rng.Uint32()>>1))
	}
	return fine, nil
}

// cloud is what becomes of a request to the cloud, besides what the cloud itself
// does wrong.
func (s *weather) cloud(w *World, _ bool) (trouble, error) {
	if s.dark.After(w.now) {
		return refused, errRefused
	}
	if s.rain.After(w.now) && w.chance(s.rainOdds) {
		return [...]trouble{refused, lostRequest, lostAnswer}[w.rng.IntN(3)], errReset
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
	for i := 0; i < len(w.processes); {
		p := w.processes[i]
		if !p.isCommand() && slices.ContainsFunc(w.processes[i+1:], p.same) {
			w.crash(p, "another one leads")
			continue
		}
		i++
	}
}
