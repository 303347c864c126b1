package aws

import (
	"context"
	"encoding/json"
	"maps"
	"strings"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

const opFinish = "configure interface"

// waitToFinish is when to try again what an instance is not ready for.
const waitToFinish = 2 * time.Second

// finish does what cannot be asked for when an instance is launched. A positive
// wait means that it is not finished: until an instance runs, EC2 may find that it
// cannot launch it.
func (a *account) finish(ctx context.Context, s *spec, r cloud.CreateRequest, t resource) (wait time.Duration,
	err error,
) {
	if t.going() || t.gone() {
		return 0, a.failedLaunch(ctx, s, r, t)
	}
	return driverkit.Steps(ctx,
		func(ctx context.Context) (time.Duration, error) { return a.forward(ctx, s, t) },
		func(ctx context.Context) (time.Duration, error) { return a.delegate(ctx, s, r, t) },
		func(ctx context.Context) (time.Duration, error) { return a.decided(ctx, s, r, t) },
		func(context.Context) (time.Duration, error) {
			if t.state == string(types.InstanceStateNamePending) {
				return waitForVM, nil
			}
			return 0, nil
		})
}

// failedLaunch returns why EC2 ended an instance that it had accepted and that never
// ran, if the same request would fail again: something is exhausted or wrong. Nil is
// any other end, about which the instance's state says enough.
func (a *account) failedLaunch(ctx context.Context, s *spec, r cloud.CreateRequest, t resource) error {
	if t.instance.StateReason == nil {
		return nil
	}
	reason := awssdk.ToString(t.instance.StateReason.Code)
	_, code, _ := strings.Cut(reason, ".") // after Server or Client
	why := table.Row(driverkit.Answer{Code: code})
	if why.Means != cloud.Exhausted && why.Means != cloud.Invalid {
		return nil
	}
	e := cloud.Errorf(why.Means, opCreate, reason, "EC2 accepted instance %s and could not launch it: %s: %s", t.id,
		reason, driverkit.Brief(awssdk.ToString(t.instance.StateReason.Message)))
	if why.Means == cloud.Exhausted {
		e.Offering = a.offering(ctx, s, r, why.Scope)
	}
	return e
}

// forward lets all interfaces pass on what is not theirs, except those that have
// no such check.
func (a *account) forward(ctx context.Context, s *spec, t resource) (time.Duration, error) {
	if *s.SourceDestCheck {
		return 0, nil
	}
	if len(t.instance.NetworkInterfaces) < len(s.NetworkInterfaces) {
		return waitToFinish, nil // EC2 does not show them yet
	}
	for _, n := range t.instance.NetworkInterfaces {
		kind := interfaceSpec{InterfaceType: awssdk.ToString(n.InterfaceType)}
		if kind.efa() || n.SourceDestCheck != nil && !*n.SourceDestCheck {
			continue
		}
		_, err := ask(ctx, a, opFinish, a.client.ModifyNetworkInterfaceAttribute, &ec2.ModifyNetworkInterfaceAttributeInput{
			NetworkInterfaceId: n.NetworkInterfaceId, SourceDestCheck: &types.AttributeBooleanValue{Value: awssdk.Bool(false)},
		})
		if wait, err := notYet(err); err != nil || wait > 0 {
			return wait, err
		}
	}
	return 0, nil
}

// notYet turns errors that pass as soon as the instance is further into a wait.
func notYet(e *cloud.Error) (time.Duration, error) {
	if e == nil {
		return 0, nil
	}
	switch e.Reason {
	case "IncorrectState", "IncorrectInstanceState", codeInterfaceNotFound, codeInstanceNotFound:
		return waitToFinish, nil
	}
	if e.Code == cloud.NotFound {
		e.Code = cloud.Unavailable
	}
	return 0, e
}

// progress is the driver's note to itself: when prefixes were last asked for, by
// interface. EC2 has no token for that call.
type progress struct {
	Prefixes map[string]time.Time `json:"prefixes,omitempty"`
}

// delegate gives interfaces the IPv6 prefixes that they lack.
func (a *account) delegate(ctx context.Context, s *spec, r cloud.CreateRequest, t resource) (time.Duration, error) {
	want := s.prefixes()
	if len(want) == 0 {
		return 0, nil
	}
	var note progress
	_ = json.Unmarshal([]byte(r.State), &note) // what is no note of ours says nothing
	asked := map[string]time.Time{}
	maps.Copy(asked, note.Prefixes)
	for _, n := range t.instance.NetworkInterfaces {
		card, device := place(n)
		id, wanted := awssdk.ToString(n.NetworkInterfaceId), want[slot{card, device}]
		if wanted == 0 {
			continue
		}
		delete(want, slot{card, device})
		wait, err := a.delegateTo(ctx, r, id, wanted, asked)
		if err != nil || wait > 0 {
			return wait, err
		}
	}
	if len(want) > 0 {
		return waitToFinish, nil // EC2 does not show the interface yet
	}
	return 0, nil
}

// slot is where an interface is plugged in.
type slot struct{ card, device int32 }

// prefixes returns how many prefixes the class wants, by slot.
func (s *spec) prefixes() map[slot]int32 {
	want := map[slot]int32{}
	for _, n := range s.NetworkInterfaces {
		if count := awssdk.ToInt32(n.IPv6PrefixCount); count > 0 {
			want[slot{awssdk.ToInt32(n.NetworkCardIndex), *n.DeviceIndex}] = count
		}
	}
	return want
}

// delegateTo gives one interface what it lacks. It looks at the interface itself
// first, and after a call whose answer it does not know it gives EC2 time to
// show the effect.
func (a *account) delegateTo(ctx context.Context, r cloud.CreateRequest, id string, wanted int32,
	asked map[string]time.Time,
) (time.Duration, error) {
	out, failed := ask(ctx, a, opFinish, a.client.DescribeNetworkInterfaces, &ec2.DescribeNetworkInterfacesInput{
		Filters: []types.Filter{filter("network-interface-id", id)},
	})
	if failed != nil {
		return notYet(failed)
	}
	if len(out.NetworkInterfaces) == 0 {
		return waitToFinish, nil
	}
	lacks := wanted - int32(len(out.NetworkInterfaces[0].Ipv6Prefixes)) //nolint:gosec // a handful
	if lacks <= 0 {
		return 0, nil
	}
	now := a.now()
	if at, known := asked[id]; known && now.Sub(at) < settleTime {
		return min(settleTime-now.Sub(at), waitForVM), nil
	}
	asked[id] = now.UTC().Truncate(time.Second)
	if err := driverkit.Note(ctx, opFinish, r, progress{Prefixes: asked}); err != nil {
		return 0, err
	}
	_, failed = ask(ctx, a, opFinish, a.client.AssignIpv6Addresses, &ec2.AssignIpv6AddressesInput{
		NetworkInterfaceId: &id, Ipv6PrefixCount: awssdk.Int32(lacks),
	})
	return notYet(failed)
}
