package kubevirt

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// one returns the VM of r, which is not going.
func (a *account) one(ctx context.Context, op string, r cloud.Ref) (*spec, machine, error) {
	s, err := driverkit.SpecOf[*spec](op, r.Class)
	if err != nil {
		return nil, machine{}, err
	}
	found, err := a.machines(ctx, op, s, r)
	if err != nil {
		return nil, machine{}, driverkit.Restrict(err)
	}
	var vms []cloud.VM
	for _, m := range found {
		vms = append(vms, s.vmOf(m, nil))
	}
	vm, err := driverkit.One(op, r, vms)
	if err != nil {
		return nil, machine{}, err
	}
	for _, m := range found {
		if m.Metadata.Name == vm.ID && m.Metadata.Deleted == nil {
			return s, m, nil
		}
	}
	const text = "VM %s of machine %q is being deleted"
	return nil, machine{}, cloud.Errorf(cloud.NotFound, op, "NotFound", text, vm.ID, r.Name)
}

// Reboot resets the VM of r, or starts it if it is stopped. A paused one goes on first: a reset
// would leave it paused. One that KubeVirt starts by itself is busy, and one that it never starts again cannot be
// rebooted: it would refuse both as a conflict.
func (a *account) Reboot(ctx context.Context, r cloud.Ref) error {
	const op = "reboot VM"
	_, m, err := a.one(ctx, op, r)
	if err != nil {
		return err
	}
	of, what := instances, "reset"
	switch word := m.Status.PrintableStatus; {
	case m.down() && m.restarts(nil):
		return cloud.Errorf(cloud.Unavailable, op, cloud.ReasonVMBusy,
			"VM %s is %s, and KubeVirt starts it by itself, since its runStrategy is %s", m.Metadata.Name, word, m.runStrategy())
	case m.down() && m.runStrategy() == runOnce:
		return cloud.Errorf(cloud.Invalid, op, cloud.ReasonRebootUnsupported,
			"VM %s has ended, and KubeVirt starts none again whose runStrategy is %s; replace the machine",
			m.Metadata.Name, runOnce)
	case word == stopped:
		of, what = machines, "start"
	case word == paused:
		if e := a.client.put(ctx, op, instances, m.Metadata.Name, "unpause"); e != nil {
			return rebooted(e)
		}
	}
	if e := a.client.put(ctx, op, of, m.Metadata.Name, what); e != nil {
		return rebooted(e)
	}
	return nil
}

// rebooted returns the error of a reboot. KubeVirt refuses one of a VM that is starting or
// stopping as a conflict, or finds no instance of the VM; a release that knows no reset finds no
// such path.
func rebooted(e *cloud.Error) error {
	if e.Code == cloud.NotFound {
		if reasonOf(e) == "" {
			return cloud.Errorf(cloud.Invalid, e.Op, cloud.ReasonRebootUnsupported,
				"the cluster's release of KubeVirt cannot reset a VM; upgrade it")
		}
		busy := *e
		busy.Code, busy.Reason = cloud.Unavailable, cloud.ReasonVMBusy
		return &busy
	}
	return driverkit.Restrict(driverkit.Busy(e, reasonConflict))
}

// Console returns the end of what the machine's VM has written to its serial console: the log of a
// container beside the VM. It is empty while there is none, or where KubeVirt does not keep it.
func (a *account) Console(ctx context.Context, r cloud.Ref) (string, error) {
	const op = "read console"
	_, m, err := a.one(ctx, op, r)
	if err != nil {
		return "", err
	}
	i, err := a.instance(ctx, op, m)
	if err != nil || i == nil {
		return "", driverkit.Restrict(err)
	}
	launchers, err := driverkit.Collect(list[object](ctx, a.client, op, pods,
		map[string]string{"kubevirt.io/created-by": i.Metadata.UID}))
	if err != nil {
		return "", driverkit.Restrict(err)
	}
	newest := object{}
	for _, p := range launchers { // several while the VM moves to another node
		if newest.Metadata.created().Before(p.Metadata.created()) {
			newest = p
		}
	}
	if newest.Metadata.Name == "" {
		return "", nil
	}
	return a.log(ctx, op, newest.Metadata.Name)
}

// log reads the end of the log of a VM's console.
func (a *account) log(ctx context.Context, op, pod string) (string, error) {
	const lines = 2000 // more than a tail has, unless they are short
	query := url.Values{"container": {"guest-console-log"}, "tailLines": {strconv.Itoa(lines)}}
	var text string
	e := a.client.do(ctx, op, driverkit.Call{
		Method: http.MethodGet, URL: a.client.path(pods, pod, "log") + "?" + query.Encode(), Out: &text,
	})
	switch {
	case e == nil:
		return cloud.ConsoleTail(text), nil
	case e.Code == cloud.NotFound || e.Code == cloud.Invalid:
		return "", nil // the pod or its container has gone, has not begun, or there is none
	}
	return "", driverkit.Restrict(e)
}

// SetTags changes the labels of the VM of r, of its volumes and of its Secrets.
func (a *account) SetTags(ctx context.Context, r cloud.Ref, obsolete []string) error {
	const op = "set tags"
	s, m, err := a.one(ctx, op, r)
	if err != nil {
		return err
	}
	labels := s.changed(obsolete)
	if err := a.relabel(ctx, op, machines, m.Metadata, labels, m.Spec.Template.Metadata.Labels); err != nil {
		return err
	}
	r.Name = m.Metadata.machine()
	for _, of := range []collection{dataVolumes, secrets} {
		found, err := mine(s, r, list[object](ctx, a.client, op, of, s.filter(r)))
		if err != nil {
			return driverkit.Restrict(err)
		}
		for _, o := range found {
			if err := a.relabel(ctx, op, of, o.Metadata, labels, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// differ reports whether labels lack some of those that are wanted, or have some without a value there.
func differ(has map[string]string, wanted map[string]*string) bool {
	for key, want := range wanted {
		value, there := has[key]
		if there != (want != nil) || there && value != *want {
			return true
		}
	}
	return false
}

// changed returns the labels that a merge sets, and those that it removes, which have no value.
func (s *spec) changed(obsolete []string) map[string]*string {
	labels := map[string]*string{}
	for key, value := range s.userTags() {
		labels[key] = &value
	}
	fixed := append(s.ownerKeys(), machineLabel, clusterLabel, roleLabel)
	for _, key := range codec.Obsolete(obsolete, s.Tags, fixed...) {
		labels[key] = nil
	}
	return labels
}

// relabel changes the labels of an object that lacks some of them, or has some that it should not. Those of a VM's
// template change with its own, and reach its next instance: KubeVirt does not change an instance that runs. The
// template is nil for other objects.
func (a *account) relabel(
	ctx context.Context, op string, of collection, m meta, labels map[string]*string, template map[string]string,
) error {
	change := map[string]any{"metadata": map[string]any{"uid": m.UID, "labels": labels}}
	switch {
	case of == machines && (differ(m.Labels, labels) || differ(template, labels)):
		change["spec"] = map[string]any{"template": map[string]any{"metadata": map[string]any{"labels": labels}}}
	case of == machines, !differ(m.Labels, labels):
		return nil
	}
	e := a.client.merge(ctx, op, of, m.Name, change)
	if e == nil || e.Code == cloud.NotFound && of != machines {
		return nil
	}
	return driverkit.Restrict(e, cloud.Invalid, cloud.NotFound)
}
