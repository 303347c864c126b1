package play

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capmcm/cluster-api-provider-mcm/controllers"
	model "github.com/capmcm/cluster-api-provider-mcm/test/simulation/apiserver"
)

// home is a management cluster: an API server, and the managers that run there.
type home struct {
	name     string
	server   *model.Server
	managers [][]controllers.APIGroup // which APIs each of them runs
	core     *core                    // Cluster API's; nil without it
}

// serves reports whether the API server serves a kind.
func (h *home) serves(k controllers.Kind) bool {
	return slices.ContainsFunc(h.server.Kinds(), func(o *model.Kind) bool {
		return o.GVK.GroupVersion() == k.Version && o.Resource == schema.GroupResource{
			Group:    k.Version.Group,
			Resource: k.Plural,
		}
	})
}

// clusterAPI are the APIs of the Cluster API providers.
func clusterAPI() []controllers.APIGroup {
	return []controllers.APIGroup{controllers.Infrastructure, controllers.Bootstrap, controllers.ControlPlane}
}

// settleHomes makes the homes of a world, as its plan has them. Where both APIs are
// open, one manager has both, or each has one.
func (w *World) settleHomes() {
	p := w.plan
	native, capi := len(p.Pools) > 0, len(p.Workers) > 0
	first := &home{name: "home-1", server: w.Control}
	switch {
	case native && capi && p.Apart:
		first.managers = [][]controllers.APIGroup{{controllers.Native}, clusterAPI()}
	case native && capi:
		first.managers = [][]controllers.APIGroup{append([]controllers.APIGroup{controllers.Native}, clusterAPI()...)}
	case capi:
		first.managers = [][]controllers.APIGroup{clusterAPI()}
	default:
		first.managers = [][]controllers.APIGroup{{controllers.Native}}
	}
	serveClasses(first.server)
	serveMachines(first.server) // their kinds are served, whoever looks after them
	w.homes, w.lives = []*home{first}, first
	if capi {
		serveClusterAPI(first.server)
		first.core = newCore(w, first)
	}
	serveSecrets(first.server)
	if p.Moves {
		second := &home{name: "home-2", server: model.New(w.Now, w.newUID), managers: [][]controllers.APIGroup{clusterAPI()}}
		serveClasses(second.server)
		serveClusterAPI(second.server)
		serveSecrets(second.server)
		second.core = newCore(w, second)
		w.homes = append(w.homes, second)
	}
}

// homeOf is the management cluster of an API server; nil if it is none.
func (w *World) homeOf(s *model.Server) *home {
	for _, h := range w.homes {
		if h.server == s {
			return h
		}
	}
	return nil
}
