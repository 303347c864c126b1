package aws

import (
	"context"
	"strings"
	"sync"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// account is the cloud.Account of one set of credentials in one region.
type account struct {
	region  string
	now     func() time.Time
	client  *ec2.Client
	refresh func() // makes the next call log in again; nil without sessions

	byID   *batcher[struct{}, string, *thing]
	byName *batcher[lookup, string, []thing]
	ender  *batcher[struct{}, string, error]

	mu    sync.Mutex
	roots map[string]string    // root device by image, which never changes
	zones map[string]string    // zone by subnet, which never changes
	loose map[string]time.Time // when an interface without a VM was first seen
}

// lookup is what lookups by name have in common that can share a call.
type lookup struct {
	kind cloud.Kind
	keys string // of the ownership tags
}

func newAccount(o Options, region string, client *ec2.Client, refresh func()) *account {
	a := &account{
		region: region, now: o.Now, client: client, refresh: refresh,
		roots: map[string]string{}, zones: map[string]string{}, loose: map[string]time.Time{},
	}
	a.byID = newBatcher(o.Window, a.lookUpIDs)
	a.byName = newBatcher(o.Window, a.lookUpNames)
	a.ender = newBatcher(o.Window, a.terminate)
	return a
}

// rootDevice returns the name of the root device of an image.
func (a *account) rootDevice(ctx context.Context, ami string) (string, error) {
	a.mu.Lock()
	root, known := a.roots[ami]
	a.mu.Unlock()
	if known {
		return root, nil
	}
	out, err := ask(ctx, a, opCreate, a.client.DescribeImages, &ec2.DescribeImagesInput{ImageIds: []string{ami}})
	if err != nil {
		return "", invalid(err, "ami", "name an image that this account can use in this region")
	}
	if len(out.Images) == 0 || awssdk.ToString(out.Images[0].RootDeviceName) == "" {
		err := cloud.Errorf(cloud.Invalid, opCreate, "InvalidAMIID.NotFound", "EC2 does not show image %s", ami)
		return "", invalid(err, "ami", "name an image that this account can use in this region")
	}
	root = *out.Images[0].RootDeviceName
	a.mu.Lock()
	defer a.mu.Unlock()
	a.roots[ami] = root
	return root, nil
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

// zoneOf returns the zone of a subnet, empty if it cannot be had.
func (a *account) zoneOf(ctx context.Context, subnet string) string {
	a.mu.Lock()
	zone, known := a.zones[subnet]
	a.mu.Unlock()
	if known || subnet == "" {
		return zone
	}
	out, err := ask(ctx, a, "look up subnet", a.client.DescribeSubnets, &ec2.DescribeSubnetsInput{SubnetIds: []string{subnet}})
	if err != nil || len(out.Subnets) == 0 {
		return ""
	}
	zone = awssdk.ToString(out.Subnets[0].AvailabilityZone)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.zones[subnet] = zone
	return zone
}
