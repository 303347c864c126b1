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

// clusterAPI are the kind and the competence of Cluster API's door.
type clusterAPI struct{}

// Judges is true for what was made for a Cluster of Cluster API.
func (clusterAPI) Judges(r cloud.Resource) bool { return ofClusterAPI(r) }

// Kind is MCMMachine.
func (clusterAPI) Kind() client.Object { return &infrav1.MCMMachine{} }

// mcmMachines are the owners of Cluster API's door.
type mcmMachines struct {
	clusterAPI
	cached    client.Reader
	live      client.Reader
	namespace string
}

// NewMCMMachines returns the Owners of Cluster API's door: the MCMMachines of a
// namespace, or of all if it is empty. A resource of a Cluster that is not here,
// paused or being moved is held. cached has the indexes of index.Infrastructure;
// live reads from the API server.
func NewMCMMachines(cached, live client.Reader, namespace string) Owners {
	return &mcmMachines{cached: cached, live: live, namespace: namespace}
}

// indexOf are the indexes of MCMMachines by the native ones'.
var indexOf = map[string]string{
	byOwnerID: index.MCMMachineByOwnerID, byName: index.MCMMachineByName,
	byProviderID: index.MCMMachineByProviderID,
}

// Find looks up, and copies nothing.
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
	home, err := o.homeOf(ctx, r.Tags[machinev1.ClusterIDTag])
	return append(found, home.holds(r)...), err
}

// homeOf is what a cache shows of the Cluster with a durable id.
func (o *mcmMachines) homeOf(ctx context.Context, id string) (home, error) {
	var list infrav1.MCMClusterList
	err := o.cached.List(ctx, &list, client.InNamespace(o.namespace), client.MatchingFields{index.MCMClusterByOwnerID: id})
	if err != nil {
		return home{}, fmt.Errorf("look up the MCMCluster with id %s: %w", id, err)
	}
	if len(list.Items) != 1 {
		return home{held: fmt.Sprintf("%d MCMClusters here have the id %s", len(list.Items), id)}, nil
	}
	cluster, _, err := capi.ClusterOf(ctx, o.cached, &list.Items[0])
	return homeFor(&list.Items[0], cluster), err
}

// Live lists all MCMMachines and their Clusters once, so that three requests
// answer for all resources.
func (o *mcmMachines) Live(ctx context.Context) (Owners, error) {
	now := &mcmSnapshot{snapshot: snapshot{byKey: map[key][]Owner{}}, homes: map[string]home{}}
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
			now.settle(&page.Items[i], clusters)
		}
	}, inNamespace))
	return now, err
}

// mcmSnapshot are the owners of Cluster API's door, and their Clusters, at one time.
type mcmSnapshot struct {
	clusterAPI
	snapshot
	homes map[string]home // by durable id
}

// settle notes a MCMCluster. Two with the same id are one too many to tell whose
// a resource is.
func (s *mcmSnapshot) settle(infra *infrav1.MCMCluster, clusters map[client.ObjectKey]*clusterv1.Cluster) {
	id := infra.Annotations[machinev1.OwnerIDAnnotation]
	if id == "" {
		return
	}
	if _, twice := s.homes[id]; twice {
		s.homes[id] = home{held: "several MCMClusters here have the id " + id}
		return
	}
	s.homes[id] = homeFor(infra, clusters[client.ObjectKey{Namespace: infra.Namespace, Name: capi.ClusterName(infra)}])
}

// Find returns who may own r, or why it is held.
func (s *mcmSnapshot) Find(ctx context.Context, r cloud.Resource) ([]Owner, error) {
	found, err := s.snapshot.Find(ctx, r)
	if !ofClusterAPI(r) {
		return found, err
	}
	at, here := s.homes[r.Tags[machinev1.ClusterIDTag]]
	if !here {
		at.held = "its Cluster is not here"
	}
	return append(found, at.holds(r)...), err
}

// Live returns s itself.
func (s *mcmSnapshot) Live(context.Context) (Owners, error) { return s, nil }

// home is the Cluster that resources belong to.
type home struct {
	held     string   // why nothing of it may be touched; empty if it may
	retained []string // owner ids of VMs that were left on purpose
}

// homeFor is what a MCMCluster and its Cluster mean to resources; cluster is nil
// if there is none.
func homeFor(infra *infrav1.MCMCluster, cluster *clusterv1.Cluster) home {
	h := home{retained: strings.Split(infra.Annotations[infrav1.RetainedVMsAnnotation], ",")}
	switch {
	case cluster == nil:
		h.held = "there is no Cluster of MCMCluster " + infra.Namespace + "/" + infra.Name
	case capi.Paused(cluster, infra) != "":
		h.held = "its Cluster is paused"
	case capi.Moving(infra), capi.Moving(cluster):
		h.held = "its Cluster is being moved"
	case capi.Externally(infra):
		h.held = "its MCMCluster is managed by somebody else"
	}
	return h
}

// holds says, in the form of an owner, why r may not be touched.
func (h home) holds(r cloud.Resource) []Owner {
	why := h.held
	if why == "" && r.OwnerID != "" && slices.Contains(h.retained, r.OwnerID) {
		why = "it was left on purpose"
	}
	if why == "" {
		return nil
	}
	return []Owner{{
		Text: "Cluster " + r.Tags[machinev1.ClusterNamespaceTag] + "/" + r.Tags[machinev1.ClusterNameTag],
		Held: why,
	}}
}

// mcmOwnerOf is what a MCMMachine means to the resources of the cloud.
func mcmOwnerOf(m *infrav1.MCMMachine) Owner {
	o := Owner{
		Text: "MCMMachine " + m.Namespace + "/" + m.Name, Name: m.Name, ID: machinev1.OwnerID(m),
		ProviderID: m.Spec.ProviderID,
		Creating:   m.Spec.ProviderID == "" || m.Annotations[machinev1.CreateAttemptAnnotation] != "",
	}
	for _, a := range []string{HoldAnnotation, pausedAnnotation, moveAnnotation, machinev1.RetainVMAnnotation} {
		if _, ok := m.Annotations[a]; ok && o.Held == "" {
			o.Held = "annotation " + a
		}
	}
	return o
}
