package capi

import (
	"fmt"
	"slices"
	"testing"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/test/cluster/audit"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// A fleet is what no move may touch, in a line for each: all VMs that there ever
// were, and all Nodes and pods that there are.
type fleet map[string]string

// fleet reads it.
func (d *bothAPIs) fleet(t *testing.T) fleet {
	t.Helper()
	f := fleet{}
	ledger, err := d.Cloud.Ledger(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for i := range ledger {
		f[ledger[i].Kind+" "+ledger[i].ID] = lifeOf(&ledger[i])
	}
	var nodes corev1.NodeList
	var pods corev1.PodList
	if err := d.cl.List(t.Context(), &nodes); err != nil {
		t.Fatal(err)
	}
	if err := d.cl.List(t.Context(), &pods); err != nil {
		t.Fatal(err)
	}
	for i := range nodes.Items {
		f["node "+nodes.Items[i].Name] = faceOf(&nodes.Items[i])
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		f["pod "+p.Name] = fmt.Sprintf("uid %s, on %s, %s, deleted %v", p.UID, p.Spec.NodeName, p.Status.Phase,
			p.DeletionTimestamp)
	}
	return f
}

// lifeOf is what has happened to a thing in the cloud. A VM that was stopped,
// started or recreated says so.
func lifeOf(r *sim.Resource) string {
	text := fmt.Sprintf("%s, made %s by %s, deleting %s, gone %s %s, tags %v", r.Name(), r.Made, r.Account, r.Deleting,
		r.Gone, r.GoneBy, r.Tags)
	if r.VM != nil {
		text += fmt.Sprintf(", %s since %s, stopped %v, failed %v", r.VM.State, r.VM.Running, r.VM.Stopped, r.VM.Failed)
	}
	return text
}

// faceOf is what pods and their scheduler see of a Node, and what says that it is
// the same one.
func faceOf(n *corev1.Node) string {
	var labels, taints []string
	for key, value := range n.Labels {
		if key != machinev1.MachineNameLabel { // the native API's own
			labels = append(labels, key+"="+value)
		}
	}
	for i := range n.Spec.Taints {
		taints = append(taints, n.Spec.Taints[i].ToString())
	}
	slices.Sort(labels)
	slices.Sort(taints)
	return fmt.Sprintf("uid %s, boot %s, made %s, providerID %s, unschedulable %v, deleted %v, labels %v, taints %v",
		n.UID, n.Status.NodeInfo.BootID,
		n.CreationTimestamp, n.Spec.ProviderID, n.Spec.Unschedulable, n.DeletionTimestamp, labels, taints)
}

// same fails unless the fleet is what it was.
func (f fleet) same(t *testing.T, what string, now fleet) {
	t.Helper()
	if diff := cmp.Diff(f, now); diff != "" {
		t.Errorf("%s has touched what it must not (-before +after):\n%s", what, diff)
	}
}

// A watch looks for what must not happen while pools are moved.
type watch struct {
	d     *bothAPIs
	fleet fleet
	from  audit.Mark
	calls map[string]int
}

// watch begins.
func (d *bothAPIs) watch(t *testing.T) watch {
	t.Helper()
	from, err := d.Cluster.Audit().End()
	if err != nil {
		t.Fatal(err)
	}
	return watch{d, d.fleet(t), from, d.changes(t)}
}

// changes is how often each call that changes something in the cloud was made.
func (d *bothAPIs) changes(t *testing.T) map[string]int {
	t.Helper()
	calls := map[string]int{}
	for _, op := range []string{
		sim.OpCreateVM, sim.OpDeleteVM, sim.OpSetForwarding, sim.OpSetTags, sim.OpCreateDisk, sim.OpAttachDisk,
		sim.OpDetachDisk,
		sim.OpDeleteDisk, sim.OpCreateNIC, sim.OpDeleteNIC,
	} {
		n, err := d.Cloud.CallsOf(t.Context(), stack.AccountID, op)
		if err != nil {
			t.Fatal(err)
		}
		calls[op] = n
	}
	return calls
}

// ends fails if the moves since its begin have touched anything: the cloud was not
// even asked for a change, no pod was evicted and no Node deleted, and no
// controller has made or deleted a machine on either API.
func (w watch) ends(t *testing.T, what string) {
	t.Helper()
	w.fleet.same(t, what, w.d.fleet(t))
	if diff := cmp.Diff(w.calls, w.d.changes(t)); diff != "" {
		t.Errorf("%s has changed the cloud (-before +after):\n%s", what, diff)
	}
	entries, err := w.d.Cluster.Audit().Since(w.from, forbidden)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		t.Errorf("during %s, %s has asked to %s %s %s/%s (%d)", what, e.User, e.Verb, e.Target(), e.Namespace, e.Name, e.Code)
	}
}

// forbidden reports whether a request would be a machine's, a node's or a pod's end
// or begin, or a set's, unless it is the mover's own about the objects of an API.
func forbidden(e audit.Entry) bool {
	mutating := e.Verb == "create" || e.Verb == "delete" || e.Verb == "deletecollection"
	switch {
	case !mutating:
		return false
	case e.Target() == "pods/eviction":
		return true
	case e.Target() == "pods" || e.Target() == "nodes":
		return e.Verb != "create"
	case e.Subresource == "" && e.User != mover:
		return slices.Contains([]string{"machines", "machinesets", "machinedeployments", "mcmmachines"}, e.Resource)
	}
	return false
}
