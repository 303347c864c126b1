package orphan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/capi"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/live"
)

// clusterAPI has what Owners of Cluster API's kinds judge, and their kind.
type clusterAPI struct{}

// Judges reports whether r was created for a Cluster of Cluster API.
func (clusterAPI) Judges(r cloud.Resource) bool { return ofClusterAPI(r) }

// Kind returns MCMMachine.
func (clusterAPI) Kind() client.Object { return &infrav1.MCMMachine{} }

// mcmMachines are the MCMMachines of a cache.
type mcmMachines struct {
	clusterAPI
	cached    client.Reader
	live      client.Reader
	namespace string
}

// NewMCMMachines returns the Owners of Cluster API: the MCMMachines of a namespace,
// or of all namespaces if it is empty. A resource of a Cluster that does not exist
// here, is paused or is being moved is held. cached has the indexes of index.Infrastructure;
// live reads from the API server.
func NewMCMMachines(cached, live client.Reader, namespace string) Owners {
	return &mcmMachines{cached: cached, live: live, namespace: namespace}
}

// indexOf maps an index of Machines to that of MCMMachines.
var indexOf = map[string]string{
	byOwnerID: index.MCMMachineByOwnerID, byName: index.MCMMachineByName,
	byProviderID: index.MCMMachineByProviderID,
}

// Find looks the owners up in the cache, without copies.
func (o *mcmMachines) Find(ctx context.Context, r cloud.Resource) ([]Owner, error) {
	var found []Owner
	seen := map[string]bool{}
	for _, k := range keysOf(r) {
		var list infrav1.MCMMachineList
		err := o.cached.List(ctx, &list, client.InNamespace(o.namespace), client.MatchingFields{indexOf[k.field]: k.value},
			client.UnsafeDisableDeepCopy)
		if err != nil {
			return nil, fmt.Errorf("look up MCMMachines of %s %s: %w", r.Kind, r.ID, err)
		}
		for i := range list.Items {
			if owner := mcmOwnerOf(&list.Items[i]); !seen[owner.Text] {
				seen[owner.Text] = true
				found = append(found, owner)
			}
		}
	}
	if !ofClusterAPI(r) {
		return found, nil
	}
	at, err := o.originByID(ctx, r.Tags[machinev1.ClusterIDTag])
	return append(found, at.heldBy(r)...), err
}

// originByID returns what the cache shows of the Cluster with an owner ID.
func (o *mcmMachines) originByID(ctx context.Context, id string) (origin, error) {
	var list infrav1.MCMClusterList
	err := o.cached.List(ctx, &list, client.InNamespace(o.namespace), client.MatchingFields{index.MCMClusterByOwnerID: id})
	if err != nil {
		return origin{}, fmt.Errorf("look up the MCMCluster with id %s: %w", id, err)
	}
	if len(list.Items) != 1 {
		return origin{held: fmt.Sprintf("%d MCMClusters have the owner ID %s", len(list.Items), id)}, nil
	}
	cluster, _, err := capi.ClusterOf(ctx, o.cached, &list.Items[0])
	return originOf(&list.Items[0], cluster), err
}

// Live lists all MCMMachines and their Clusters from the API server, once for all
// resources.
func (o *mcmMachines) Live(ctx context.Context) (Owners, error) {
	now := &mcmSnapshot{snapshot: snapshot{byKey: map[key][]Owner{}}, origins: map[string]origin{}}
	inNamespace := client.InNamespace(o.namespace)
	err := live.Pages(ctx, o.live, func(page *infrav1.MCMMachineList) {
		for i := range page.Items {
			now.add(mcmOwnerOf(&page.Items[i]))
		}
	}, inNamespace)
	clusters := map[client.ObjectKey]*clusterv1.Cluster{}
	err = errors.Join(err, live.Pages(ctx, o.live, func(page *clusterv1.ClusterList) {
		for i := range page.Items {
			clusters[client.ObjectKeyFromObject(&page.Items[i])] = page.Items[i].DeepCopy()
		}
	}, inNamespace))
	err = errors.Join(err, live.Pages(ctx, o.live, func(page *infrav1.MCMClusterList) {
		for i := range page.Items {
			now.addCluster(&page.Items[i], clusters)
		}
	}, inNamespace))
	return now, err
}

// mcmSnapshot has all MCMMachines and their Clusters at one time.
type mcmSnapshot struct {
	clusterAPI
	snapshot
	origins map[string]origin // by owner ID
}

// addCluster adds an MCMCluster. Where two have the same owner ID, it is unknown which
// of them a resource belongs to, so both are held.
func (s *mcmSnapshot) addCluster(infra *infrav1.MCMCluster, clusters map[client.ObjectKey]*clusterv1.Cluster) {
	id := infra.Annotations[machinev1.OwnerIDAnnotation]
	if id == "" {
		return
	}
	if _, twice := s.origins[id]; twice {
		s.origins[id] = origin{held: "several MCMClusters have the owner ID " + id}
		return
	}
	s.origins[id] = originOf(infra, clusters[client.ObjectKey{Namespace: infra.Namespace, Name: capi.ClusterName(infra)}])
}

// Find returns who may own r, and why it is held.
func (s *mcmSnapshot) Find(ctx context.Context, r cloud.Resource) ([]Owner, error) {
	found, err := s.snapshot.Find(ctx, r)
	if !ofClusterAPI(r) {
		return found, err
	}
	at, here := s.origins[r.Tags[machinev1.ClusterIDTag]]
	if !here {
		at.held = "its Cluster does not exist here"
	}
	return append(found, at.heldBy(r)...), err
}

// Live returns s itself.
func (s *mcmSnapshot) Live(context.Context) (Owners, error) { return s, nil }

// origin is the Cluster that resources belong to.
type origin struct {
	held     string   // why its resources must not be removed; empty if they may
	retained []string // owner ids of VMs that were left on purpose
}

// originOf returns the origin of the resources of an MCMCluster and its Cluster;
// cluster is nil if it does not exist.
func originOf(infra *infrav1.MCMCluster, cluster *clusterv1.Cluster) origin {
	o := origin{retained: strings.Split(infra.Annotations[infrav1.RetainedVMsAnnotation], ",")}
	switch {
	case cluster == nil:
		o.held = "no Cluster owns MCMCluster " + infra.Namespace + "/" + infra.Name
	case capi.Paused(cluster, infra) != "":
		o.held = "its Cluster is paused"
	case capi.Moving(infra), capi.Moving(cluster):
		o.held = "its Cluster is being moved"
	case capi.Externally(infra):
		o.held = "its MCMCluster is managed externally"
	}
	return o
}

// heldBy returns the Cluster as an owner that holds r, if it does.
func (o origin) heldBy(r cloud.Resource) []Owner {
	why := o.held
	if why == "" && r.OwnerID != "" && slices.Contains(o.retained, r.OwnerID) {
		why = "it is retained: its MCMMachine was deleted without its VM"
	}
	if why == "" {
		return nil
	}
	return []Owner{{
		Text: "Cluster " + r.Tags[machinev1.ClusterNamespaceTag] + "/" + r.Tags[machinev1.ClusterNameTag],
		Held: why,
	}}
}

// mcmOwnerOf returns an MCMMachine as the owner of resources.
func mcmOwnerOf(m *infrav1.MCMMachine) Owner {
	o := Owner{
		Text: "MCMMachine " + m.Namespace + "/" + m.Name, Name: m.Name, ID: machinev1.OwnerID(m),
		ProviderID: m.Spec.ProviderID,
		Creating:   m.Spec.ProviderID == "" || m.Annotations[machinev1.CreateAttemptAnnotation] != "",
	}
	for _, a := range []string{holdAnnotation, pausedAnnotation, moveAnnotation, machinev1.RetainVMAnnotation} {
		if _, ok := m.Annotations[a]; ok && o.Held == "" {
			o.Held = "annotation " + a
		}
	}
	return o
}
