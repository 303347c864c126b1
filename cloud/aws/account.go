package aws

import (
	"context"
	"maps"
	"strings"
	"sync"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

const (
	batchMax     = 200 // values that the filters of a call take together
	namesMax     = 140 // leaves room for the states of instances and the keys of all tags
	batchTimeout = 30 * time.Second
)

// account is the cloud.Account of one set of credentials in one region.
type account struct {
	region  string
	now     func() time.Time
	client  *ec2.Client
	refresh func() // makes the next call log in again; nil without sessions

	byID   *driverkit.Batcher[struct{}, string, map[string]*resource]
	byName *driverkit.Batcher[lookup, string, map[string][]resource]
	ender  *driverkit.Batcher[struct{}, string, map[string]error]

	// Those who ask for the same image or subnet at the same time share one call.
	images, subnets *facts

	mu    sync.Mutex
	roots map[string]string    // root device by image, which never changes
	zones map[string]string    // zone by subnet, which never changes
	loose map[string]time.Time // when an interface without a VM was first seen
	fresh map[string]resource  // instances that EC2 may not show yet, by id
	sent  map[string]string    // subnet by token of launches whose outcome is unknown
}

// facts look up what never changes, by the id of an image or a subnet.
type facts = driverkit.Batcher[string, struct{}, string]

const opSubnet = "look up subnet"

// lookup is what lookups by name have in common that can share a call.
type lookup struct {
	kind cloud.Kind
	keys string // of the ownership tags
}

func newAccount(o Options, region string, client *ec2.Client, refresh func()) *account {
	a := &account{
		region: region, now: o.Now, client: client, refresh: refresh,
		roots: map[string]string{}, zones: map[string]string{}, loose: map[string]time.Time{},
		fresh: map[string]resource{}, sent: map[string]string{},
	}
	batched := driverkit.BatchOptions{Window: o.Window, Max: batchMax, Timeout: batchTimeout}
	a.byID = driverkit.NewBatcher(batched, a.lookUpIDs)
	a.ender = driverkit.NewBatcher(batched, a.terminate)
	batched.Max = namesMax
	a.byName = driverkit.NewBatcher(batched, a.lookUpNames)
	alone := driverkit.BatchOptions{Timeout: batchTimeout}
	a.images, a.subnets = driverkit.NewBatcher(alone, a.lookUpImage), driverkit.NewBatcher(alone, a.lookUpSubnet)
	return a
}

// rootDevice returns the name of the root device of an image.
func (a *account) rootDevice(ctx context.Context, ami string) (string, error) {
	return a.fact(ctx, a.images, a.roots, opCreate, ami)
}

// fact returns what never changes from known, and asks for it if it is not there.
func (a *account) fact(ctx context.Context, ask *facts, known map[string]string, op, key string) (string, error) {
	a.mu.Lock()
	value, ok := known[key]
	a.mu.Unlock()
	if ok {
		return value, nil
	}
	value, err := ask.DoSince(ctx, op, key, struct{}{}, time.Time{})
	if err != nil {
		return "", named(op, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	known[key] = value
	return value, nil
}

// lookUpImage asks for the root device of an image.
func (a *account) lookUpImage(ctx context.Context, ami string, _ []struct{}) (string, error) {
	out, err := ask(ctx, a, opCreate, a.client.DescribeImages, &ec2.DescribeImagesInput{ImageIds: []string{ami}})
	if err == nil && (len(out.Images) == 0 || awssdk.ToString(out.Images[0].RootDeviceName) == "") {
		err = cloud.Errorf(cloud.Invalid, opCreate, "InvalidAMIID.NotFound", "EC2 does not show image %s", ami)
	}
	if err != nil {
		return "", invalid(err, "ami", "name an image that this account can use in this region")
	}
	return *out.Images[0].RootDeviceName, nil
}

// lookUpSubnet asks for the zone of a subnet.
func (a *account) lookUpSubnet(ctx context.Context, subnet string, _ []struct{}) (string, error) {
	out, err := ask(ctx, a, opSubnet, a.client.DescribeSubnets, &ec2.DescribeSubnetsInput{SubnetIds: []string{subnet}})
	switch {
	case err != nil:
		return "", err
	case len(out.Subnets) == 0:
		return "", cloud.Errorf(cloud.Invalid, opSubnet, "InvalidSubnetID.NotFound", "EC2 does not show subnet %s", subnet)
	}
	return awssdk.ToString(out.Subnets[0].AvailabilityZone), nil
}

// invalid adds the field to an error that says that it is wrong.
func invalid(e *cloud.Error, field, remedy string) *cloud.Error {
	if e.Code == cloud.Invalid {
		message := strings.TrimRight(e.Err.Error(), ". ") + "; " + remedy
		e.Problems = []cloud.Problem{{Severity: cloud.BlocksCreate, Field: "providerSpec." + field, Message: message}}
	}
	return e
}

// learn remembers the zone of a VM's subnet.
func (a *account) learn(i types.Instance) {
	if i.SubnetId == nil || i.Placement == nil || awssdk.ToString(i.Placement.AvailabilityZone) == "" {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.zones[*i.SubnetId] = *i.Placement.AvailabilityZone
}

// launched remembers an instance for as long as EC2 may not show it.
func (a *account) launched(t resource) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	maps.DeleteFunc(a.fresh, func(_ string, old resource) bool { return now.Sub(old.made) > settleTime })
	a.fresh[t.id] = t
}

// sentElsewhere reports whether a launch under this token, whose outcome is not known,
// was sent for another subnet. EC2 keeps the tokens of each zone apart, so it would make
// a second instance. It is known only to the process that has sent it.
func (a *account) sentElsewhere(token, subnet string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	before, sent := a.sent[token]
	return sent && before != subnet
}

// answered takes note of how a launch ended.
func (a *account) answered(token, subnet string, failed *cloud.Error) {
	const most = 10_000
	a.mu.Lock()
	defer a.mu.Unlock()
	if failed == nil || failed.Code != cloud.Unavailable && failed.Code != cloud.Unknown {
		delete(a.sent, token)
		return
	}
	if len(a.sent) >= most {
		clear(a.sent)
	}
	a.sent[token] = subnet
}

// unseen returns an instance as RunInstances has shown it, and whether it is so new
// that EC2 may not show it yet.
func (a *account) unseen(providerID string) (resource, bool) {
	id, _ := (*Driver)(nil).DecodeProviderID(providerID)
	a.mu.Lock()
	defer a.mu.Unlock()
	t, ok := a.fresh[id]
	return t, ok && a.now().Sub(t.made) <= settleTime
}

// zoneOf returns the zone of a subnet, empty if it cannot be had: the call that
// needs the subnet says what is wrong with it.
func (a *account) zoneOf(ctx context.Context, subnet string) string {
	if subnet == "" {
		return ""
	}
	zone, err := a.fact(ctx, a.subnets, a.zones, opSubnet, subnet)
	if err != nil {
		return ""
	}
	return zone
}
