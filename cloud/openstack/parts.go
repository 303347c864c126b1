package openstack

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

const (
	opPort   = "create port"
	opVolume = "create volume"
)

// ensurePort returns the id of the port that is made for the machine, with the
// addresses of pods allowed from the beginning.
func (a *account) ensurePort(ctx context.Context, c *config, r cloud.CreateRequest, network string) (string,
	error,
) {
	found, err := a.portsOf(ctx, opPort, c, r.Ref)
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		made, err := a.makePort(ctx, c, r, network)
		if err != nil {
			return "", err
		}
		found = []part{made.part()}
	}
	p := found[0]
	if !c.marks(p.tags) { // as MCM has them
		body := map[string]any{"tags": c.ownership}
		err := a.ask(ctx, opPort, call{method: http.MethodPut, of: neutron, path: "ports/" + p.id + "/tags", body: body})
		if err != nil {
			return "", c.invalid(err)
		}
	}
	return p.id, nil
}

// portOf returns the properties of the port of r.
func (a *account) portOf(ctx context.Context, c *config, r cloud.CreateRequest, network string) (map[string]any,
	error,
) {
	subnets, err := a.subnets(ctx, c, network)
	if err != nil {
		return nil, err
	}
	in := map[string]any{
		"name": r.Name, "description": c.portMark(r).String(), "network_id": network, "fixed_ips": subnets,
	}
	groups, err := a.groups(ctx, c)
	if err != nil {
		return nil, err
	}
	if len(groups) > 0 {
		in["security_groups"] = groups
	}
	switch {
	case c.Spec.DisablePortSecurity:
		maps.Copy(in, noPortSecurity())
	case c.Spec.podPort() && len(c.Spec.PodNetworkCIDRs) > 0:
		in["allowed_address_pairs"] = c.pairs()
	}
	return in, nil
}

// makePort makes the port. Where the network has no port security, nothing needs
// to be allowed.
func (a *account) makePort(ctx context.Context, c *config, r cloud.CreateRequest, network string) (port, error) {
	in, err := a.portOf(ctx, c, r, network)
	if err != nil {
		return port{}, err
	}
	var out struct {
		Port port `json:"port"`
	}
	request := call{method: http.MethodPost, of: neutron, path: "ports", body: map[string]any{"port": in}, out: &out}
	err = a.ask(ctx, opPort, request)
	if err != nil && strings.Contains(reasonOf(err), "PortSecurityRequired") {
		delete(in, "allowed_address_pairs")
		err = a.ask(ctx, opPort, request)
	}
	if err != nil {
		return port{}, c.invalid(err)
	}
	if out.Port.ID == "" {
		return port{}, driverkit.BrokenAnswer(opPort, "the cloud's answer names no port")
	}
	return out.Port, nil
}

// pairs are the addresses of pods as Neutron takes them.
func (c *config) pairs() []pair {
	all := []pair{}
	for _, cidr := range c.Spec.PodNetworkCIDRs {
		all = append(all, pair{IP: cidr})
	}
	return all
}

// ensureVolume returns the id of the volume that is made for the machine, once it
// can be booted from. Until then its error has the reason reasonVolumeNotReady.
func (a *account) ensureVolume(ctx context.Context, c *config, r cloud.CreateRequest, imageID string) (string,
	error,
) {
	if !a.has(ctx, cinder) {
		e := cloud.Errorf(cloud.Invalid, opVolume, "NoCinder", "the catalog has no block storage in region %q", a.region)
		return "", driverkit.WithField(e, "spec.rootDiskType", "leave it out")
	}
	found, err := a.volumesOf(ctx, opVolume, c, r.Ref)
	if err != nil {
		return "", err
	}
	var v part
	if len(found) > 0 {
		v = found[0]
	} else if v, err = a.makeVolume(ctx, c, r, imageID); err != nil {
		return "", err
	}
	if v.ready() {
		return v.id, nil
	}
	if !v.failed() {
		e := cloud.Errorf(cloud.Unavailable, opVolume, reasonVolumeNotReady, "the root volume is %s", v.state)
		e.RetryAfter = waitForVolume
		return "", e
	}
	if v.attachedTo == "" {
		if err := a.removePart(ctx, v); err != nil { // the next call makes another
			return "", err
		}
	}
	e := cloud.Errorf(cloud.Unavailable, opVolume, "VolumeFailed",
		"root volume %s could not be made: Cinder says %s; another is made", v.id, v.state)
	e.RetryAfter = waitForVolume
	return "", e
}

// ready reports whether a volume can be booted from, failed whether it never can.
func (p part) ready() bool  { return p.state == "available" || p.state == "reserved" }
func (p part) failed() bool { return strings.HasPrefix(p.state, "error") }

// makeVolume makes the volume.
func (a *account) makeVolume(ctx context.Context, c *config, r cloud.CreateRequest, imageID string) (part,
	error,
) {
	s := &c.Spec
	in := map[string]any{
		"name": r.Name, "size": s.RootDiskSize, "imageRef": imageID, "metadata": c.metadata(r),
	}
	setText(in, "volume_type", *s.RootDiskType)
	setText(in, "availability_zone", c.zone(r))
	var out struct {
		Volume volume `json:"volume"`
	}
	err := a.ask(ctx, opVolume, call{
		method: http.MethodPost, of: cinder, path: "volumes",
		body: map[string]any{"volume": in}, out: &out,
	})
	if err != nil {
		return part{}, c.invalid(err)
	}
	if out.Volume.ID == "" {
		return part{}, driverkit.BrokenAnswer(opVolume, "the cloud's answer names no volume")
	}
	return out.Volume.part(), nil
}

// removePart deletes a port, a volume or a floating IP that is loose.
func (a *account) removePart(ctx context.Context, p part) error {
	request := call{method: http.MethodDelete, of: neutron, path: "ports/" + p.id}
	switch p.kind {
	case cloud.KindDisk:
		request.of, request.path = cinder, "volumes/"+p.id
	case cloud.KindAddress:
		request.path = "floatingips/" + p.id
	case cloud.KindVM, cloud.KindInterface, cloud.KindKey:
	}
	err := a.ask(ctx, "delete "+string(p.kind), request)
	if isGone(err) {
		return nil
	}
	if e, ok := errors.AsType[*cloud.Error](err); ok && e.Code == cloud.Invalid && p.kind == cloud.KindDisk {
		e.Code = cloud.Unavailable // Cinder answers 400 for a volume that is busy
	}
	return driverkit.Restrict(err)
}

// loose reports whether nothing uses a part: it is attached to no server, or to one
// that does not exist any more.
func (a *account) loose(ctx context.Context, p part) (bool, error) {
	if p.attachedTo == "" {
		return true, nil
	}
	if p.kind == cloud.KindDisk && slices.Contains([]string{"in-use", "attaching", "detaching"}, p.state) {
		return false, nil // Cinder would refuse
	}
	_, found, err := a.byID(ctx, opDelete, p.attachedTo)
	return err == nil && !found, err
}

// listing is what a service lists.
type listing[T any] struct {
	of    service
	path  string
	key   string // in the answer
	query url.Values
	id    func(T) string
}

// pages yields what a service lists, page by page and each once. The next page
// begins after the last item of this one; when that has gone meanwhile, after
// the one before it. It stops after the first error.
func pages[T any](ctx context.Context, a *account, op string, l listing[T]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		seen := map[string]bool{}
		var after []string // ids after which the next page may begin, the best last
		for {
			items, more, err := page(ctx, a, op, l, last(after))
			if len(after) > 0 && markerGone(err) {
				after = after[:len(after)-1]
				continue
			}
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			after = after[:0]
			for _, t := range items {
				after = append(after, l.id(t))
			}
			if !yieldNew(items, l.id, seen, yield) || !more || len(items) == 0 {
				return
			}
		}
	}
}

// markerGone reports whether a service refused a page because of where it was to
// begin.
func markerGone(err error) bool {
	return isGone(err) || err != nil && cloud.CodeOf(err) == cloud.Invalid
}

// yieldNew yields the items that were not seen before, and returns what the last
// yield returned.
func yieldNew[T any](items []T, id func(T) string, seen map[string]bool, yield func(T, error) bool) bool {
	for _, t := range items {
		if seen[id(t)] {
			continue
		}
		seen[id(t)] = true
		if !yield(t, nil) {
			return false
		}
	}
	return true
}

func last(ids []string) string {
	if len(ids) == 0 {
		return ""
	}
	return ids[len(ids)-1]
}

// page returns one page, and whether there are more.
func page[T any](ctx context.Context, a *account, op string, l listing[T], after string) ([]T, bool, error) {
	path, q := l.path, maps.Clone(l.query)
	if q == nil {
		q = url.Values{}
	}
	if after != "" {
		q.Set("marker", after)
	}
	if len(q) > 0 {
		path += "?" + q.Encode()
	}
	var out map[string]json.RawMessage
	if err := a.ask(ctx, op, call{method: http.MethodGet, of: l.of, path: path, out: &out}); err != nil {
		return nil, false, err
	}
	var items []T
	if err := json.Unmarshal(out[l.key], &items); err != nil {
		return nil, false, cloud.Errorf(cloud.Unavailable, op, "BrokenAnswer", "the cloud's answer cannot be decoded")
	}
	var links []struct {
		Rel string `json:"rel"`
	}
	_ = json.Unmarshal(out[l.key+"_links"], &links) // without links this is the last page
	for _, link := range links {
		if link.Rel == "next" {
			return items, true, nil
		}
	}
	return items, false, nil
}
