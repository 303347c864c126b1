package aws

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// pageMax is how many resources a page may hold. EC2 may send fewer.
const pageMax = 1000

// resource is an instance, a volume or an interface.
type resource struct {
	kind       cloud.Kind
	id         string
	tags       map[string]string
	state      string          // EC2's word
	attachedTo string          // id of the instance; empty when it is loose
	retention  cloud.Retention // of a volume or an interface
	made       time.Time
	instance   *types.Instance // of a VM
}

// gone reports whether the resource no longer exists; EC2 still shows it for a while.
func (t resource) gone() bool {
	return t.kind == cloud.KindVM && t.state == string(types.InstanceStateNameTerminated) ||
		t.kind == cloud.KindDisk && t.state == string(types.VolumeStateDeleted)
}

// going reports whether its deletion has begun.
func (t resource) going() bool {
	return t.kind == cloud.KindVM && t.state == string(types.InstanceStateNameShuttingDown) ||
		t.kind == cloud.KindDisk && t.state == string(types.VolumeStateDeleting)
}

// owns reports whether a resource provably belongs to r: it carries the ownership
// tags of the class, and the owner id or the name of the machine.
func (s *spec) owns(t resource, r cloud.Ref) bool {
	return driverkit.Carries(t.tags, s.ownership) && driverkit.IsOf(r, t.tags[ownerTag], cmp.Or(t.tags[nameTag], r.Name))
}

// filter is a filter of EC2. Its values are patterns, so what would be one is
// escaped.
func filter(name string, values ...string) types.Filter {
	escape := strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`)
	f := types.Filter{Name: awssdk.String(name)}
	for _, v := range values {
		f.Values = append(f.Values, escape.Replace(v))
	}
	return f
}

// owned are the filters for what carries all of these tags.
func owned(keys []string) []types.Filter {
	var all []types.Filter
	for _, key := range keys {
		all = append(all, filter("tag-key", key))
	}
	return all
}

// notTerminated are the states of instances that are there.
func notTerminated() types.Filter {
	return filter("instance-state-name", "pending", "running", "shutting-down", "stopping", "stopped")
}

// pages yields resources of a kind, page by page. It stops after the first error.
func (a *account) pages(ctx context.Context, op string, kind cloud.Kind, filters []types.Filter) iter.Seq2[resource,
	error] {
	page := map[cloud.Kind]func(context.Context, string, []types.Filter, *string) ([]resource, *string, *cloud.Error){
		cloud.KindVM: a.instances, cloud.KindDisk: a.volumes, cloud.KindInterface: a.interfaces,
	}[kind]
	return driverkit.Pages(ctx, func(ctx context.Context, token string) ([]resource, string, error) {
		all, next, err := page(ctx, op, filters, set(token))
		return all, awssdk.ToString(next), reading(err)
	})
}

func (a *account) instances(ctx context.Context, op string, filters []types.Filter, next *string) (all []resource,
	more *string, failed *cloud.Error,
) {
	out, err := ask(ctx, a, op, a.client.DescribeInstances, &ec2.DescribeInstancesInput{
		Filters: filters, MaxResults: awssdk.Int32(pageMax), NextToken: next,
	})
	if err != nil {
		return nil, nil, err
	}
	for _, r := range out.Reservations {
		for _, i := range r.Instances {
			a.learn(i)
			all = append(all, fromInstance(i))
		}
	}
	return all, out.NextToken, nil
}

// fromInstance returns an instance as a resource.
func fromInstance(i types.Instance) resource {
	t := resource{
		kind: cloud.KindVM, id: awssdk.ToString(i.InstanceId), tags: tagMap(i.Tags),
		made: awssdk.ToTime(i.LaunchTime), instance: &i,
	}
	if i.State != nil {
		t.state = string(i.State.Name)
	}
	return t
}

func (a *account) volumes(ctx context.Context, op string, filters []types.Filter, next *string) (all []resource,
	more *string, failed *cloud.Error,
) {
	const most = 500 // a page of volumes is smaller
	out, err := ask(ctx, a, op, a.client.DescribeVolumes, &ec2.DescribeVolumesInput{
		Filters: filters, MaxResults: awssdk.Int32(most), NextToken: next,
	})
	if err != nil {
		return nil, nil, err
	}
	for _, v := range out.Volumes {
		t := resource{
			kind: cloud.KindDisk, id: awssdk.ToString(v.VolumeId), tags: tagMap(v.Tags), state: string(v.State),
			made: awssdk.ToTime(v.CreateTime),
		}
		var goes *bool
		for _, at := range v.Attachments {
			t.attachedTo, goes = awssdk.ToString(at.InstanceId), at.DeleteOnTermination
		}
		t.retention = retentionOf(t.attachedTo, goes, t.tags)
		all = append(all, t)
	}
	return all, out.NextToken, nil
}

func (a *account) interfaces(ctx context.Context, op string, filters []types.Filter, next *string) (all []resource,
	more *string, failed *cloud.Error,
) {
	out, err := ask(ctx, a, op, a.client.DescribeNetworkInterfaces, &ec2.DescribeNetworkInterfacesInput{
		Filters: filters, MaxResults: awssdk.Int32(pageMax), NextToken: next,
	})
	if err != nil {
		return nil, nil, err
	}
	for _, n := range out.NetworkInterfaces {
		t := resource{
			kind: cloud.KindInterface, id: awssdk.ToString(n.NetworkInterfaceId), tags: tagMap(n.TagSet),
			state: string(n.Status),
		}
		var goes *bool
		if at := n.Attachment; at != nil {
			t.attachedTo, t.made, goes = awssdk.ToString(at.InstanceId), awssdk.ToTime(at.AttachTime), at.DeleteOnTermination
		}
		t.retention = retentionOf(t.attachedTo, goes, t.tags)
		if t.made.IsZero() { // EC2 does not say, so it is as old as this account knows
			seen, known := a.loose.Known(t.id)
			if t.made = seen; !known {
				t.made = a.now()
				a.loose.Put(t.id, t.made)
			}
		}
		all = append(all, t)
	}
	return all, out.NextToken, nil
}

func tagMap(tags []types.Tag) map[string]string {
	m := make(map[string]string, len(tags))
	for _, t := range tags {
		m[awssdk.ToString(t.Key)] = awssdk.ToString(t.Value)
	}
	return m
}

// unique returns each of the values once: callers that share a call may ask for
// the same.
func unique(values []string) []string { return slices.Compact(slices.Sorted(slices.Values(values))) }

// lookUpIDs returns the instances of these ids. It filters by them: an id that
// EC2 does not know would make it refuse all of them otherwise.
func (a *account) lookUpIDs(ctx context.Context, _ struct{}, ids []string) (map[string]*resource, error) {
	found := map[string]*resource{}
	for t, err := range a.pages(ctx, opGet, cloud.KindVM, []types.Filter{filter("instance-id", unique(ids)...)}) {
		if err != nil {
			return nil, err
		}
		found[t.id] = &t
	}
	return found, nil
}

// lookUpNames returns what has these names and the ownership tags of the key.
func (a *account) lookUpNames(ctx context.Context, key lookup, names []string) (map[string][]resource, error) {
	filters := append(owned(strings.Split(key.keys, "\n")), filter("tag:"+nameTag, unique(names)...))
	if key.kind == cloud.KindVM {
		filters = append(filters, notTerminated())
	}
	found := map[string][]resource{}
	for t, err := range a.pages(ctx, opGet, key.kind, filters) {
		if err != nil {
			return nil, err
		}
		if !t.gone() {
			found[t.tags[nameTag]] = append(found[t.tags[nameTag]], t)
		}
	}
	return found, nil
}

// ofName returns what of a kind is there, has the name of r and is provably of it.
func (a *account) ofName(ctx context.Context, op string, kind cloud.Kind, s *spec, r cloud.Ref) ([]resource, error) {
	if r.Name == "" {
		return nil, nil
	}
	all, err := a.byName.Do(ctx, op, lookup{kind, strings.Join(s.ownership, "\n")}, r.Name)
	if err != nil {
		return nil, driverkit.WithOp(op, err)
	}
	return slices.DeleteFunc(slices.Clone(all[r.Name]), func(t resource) bool { return !s.owns(t, r) }), nil
}

// find returns the VMs that are provably of r: that of its providerID, or those
// of its name. Those that EC2 only remembers are left out.
func (a *account) find(ctx context.Context, op string, s *spec, r cloud.Ref) ([]resource, error) {
	if r.ProviderID == "" {
		return a.ofName(ctx, op, cloud.KindVM, s, r)
	}
	id, known := decodeProviderID(r.ProviderID)
	if !known {
		return nil, nil
	}
	if err := a.inRegion(op, r.ProviderID); err != nil {
		return nil, err
	}
	all, err := a.byID.Do(ctx, op, struct{}{}, id)
	if err != nil {
		return nil, driverkit.WithOp(op, err)
	}
	t := all[id]
	if t == nil || !s.owns(*t, r) {
		return nil, nil
	}
	return []resource{*t}, nil
}
