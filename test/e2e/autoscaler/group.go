package autoscaler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// A Group is a MachineDeployment as the autoscaler sees it.
type Group struct {
	Management dynamic.Interface // the cluster with the machines
	Workload   dynamic.Interface // the cluster with the nodes
	Discovery  discovery.DiscoveryInterface
	// API is the group and version of the machines; its group is CAPI_GROUP.
	API             schema.GroupVersion
	Namespace, Name string
}

// NewGroup finds the version of an API group that the autoscaler reads, as it
// does when it starts. management may do what the documentation says that the
// autoscaler has to be allowed.
func NewGroup(management, workload *rest.Config, api, namespace, name string) (Group, error) {
	g := Group{API: schema.GroupVersion{Group: api}, Namespace: namespace, Name: name}
	management = rest.CopyConfig(management)
	management.QPS = -1
	var errs [3]error
	g.Management, errs[0] = dynamic.NewForConfig(management)
	g.Workload, errs[1] = dynamic.NewForConfig(workload)
	g.Discovery, errs[2] = discovery.NewDiscoveryClientForConfig(management)
	if err := errors.Join(errs[:]...); err != nil {
		return g, err
	}
	return g, g.discover()
}

// discover fills in the preferred version of the group, and looks for what it
// has to serve.
func (g *Group) discover() error {
	groups, err := g.Discovery.ServerGroups()
	if err != nil {
		return err
	}
	at := slices.IndexFunc(groups.Groups, func(x metav1.APIGroup) bool { return x.Name == g.API.Group })
	if at < 0 {
		return fmt.Errorf("there is no API group %s", g.API.Group)
	}
	g.API.Version = groups.Groups[at].PreferredVersion.Version
	served, err := g.Discovery.ServerResourcesForGroupVersion(g.API.String())
	if err != nil {
		return err
	}
	for _, needed := range []string{
		"machines", "machinesets", "machinesets/scale", "machinedeployments",
		"machinedeployments/scale",
	} {
		if !slices.ContainsFunc(served.APIResources, func(r metav1.APIResource) bool { return r.Name == needed }) {
			return fmt.Errorf("%s serves no %s", g.API, needed)
		}
	}
	return nil
}

func (g *Group) of(plural string) dynamic.ResourceInterface {
	return g.Management.Resource(g.API.WithResource(plural)).Namespace(g.Namespace)
}

// key is a name that the autoscaler derives from the API group.
func (g *Group) key(name string) string { return g.API.Group + "/" + name }

func (g *Group) deployment(ctx context.Context) (*unstructured.Unstructured, error) {
	return g.of("machinedeployments").Get(ctx, g.Name, metav1.GetOptions{})
}

// TargetSize is the size that the group is to have. The field has to be there,
// 0 included; both bounds have to be annotated and leave room; and a group that
// is paused is none.
func (g *Group) TargetSize(ctx context.Context) (int64, error) {
	d, err := g.deployment(ctx)
	if err != nil {
		return 0, err
	}
	var bounds [2]int
	for i, bound := range []string{
		"cluster-api-autoscaler-node-group-min-size",
		"cluster-api-autoscaler-node-group-max-size",
	} {
		if bounds[i], err = strconv.Atoi(d.GetAnnotations()[g.key(bound)]); err != nil {
			return 0, fmt.Errorf("%s is no node group: %s: %w", g.Name, g.key(bound), err)
		}
	}
	if _, paused := d.GetAnnotations()["cluster.x-k8s.io/paused"]; paused || bounds[0] > bounds[1] || bounds[1] == 0 {
		return 0, fmt.Errorf("%s is no node group: between %d and %d, paused: %v", g.Name, bounds[0], bounds[1], paused)
	}
	size, found, err := unstructured.NestedInt64(d.Object, "spec", "replicas")
	if err == nil && !found {
		err = errors.New("unable to find replicas")
	}
	return size, err
}

// SetSize reads and patches the scale subresource.
func (g *Group) SetSize(ctx context.Context, size int) error {
	if _, err := g.of("machinedeployments").Get(ctx, g.Name, metav1.GetOptions{}, "scale"); err != nil {
		return err
	}
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, size)
	_, err := g.of("machinedeployments").Patch(ctx, g.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "scale")
	return err
}

// DeleteNode marks the machine of a node, and makes the group one smaller.
func (g *Group) DeleteNode(ctx context.Context, machine string) error {
	m, err := g.of("machines").Get(ctx, machine, metav1.GetOptions{})
	if err != nil {
		return err
	}
	annotations := maps.Clone(m.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[g.key("delete-machine")] = time.Now().String()
	m.SetAnnotations(annotations)
	if _, err := g.of("machines").Update(ctx, m, metav1.UpdateOptions{}); err != nil {
		return err
	}
	size, err := g.TargetSize(ctx)
	if err != nil {
		return err
	}
	return g.SetSize(ctx, int(size)-1)
}

func fromUnstructured(u *unstructured.Unstructured, into any) error {
	text, err := json.Marshal(u.Object)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}
