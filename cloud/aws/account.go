package aws

import (
	"context"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/aws/bootdata"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/aws/elb"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/aws/s3"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

const (
	batchMax     = 200 // values that the filters of a call take together
	namesMax     = 140 // leaves room for the states of instances and the keys of all tags
	batchTimeout = 30 * time.Second

	opSubnet = "look up subnet"
)

// account is the cloud.Account of one set of credentials in one region.
type account struct {
	region  string
	now     func() time.Time
	client  *ec2.Client
	objects s3.Service // with the credentials of client
	refresh func()     // makes the next call log in again; nil without sessions

	balancers elb.Client
	sts       *sts.Client

	byID   *driverkit.Batcher[struct{}, string, map[string]*resource]
	byName *driverkit.Batcher[lookup, string, map[string][]resource]
	ender  *driverkit.Batcher[struct{}, string, map[string]error]

	roots *driverkit.Cache[string, string]    // root device by image, which never changes
	zones *driverkit.Cache[string, string]    // zone by subnet, which never changes
	loose *driverkit.Cache[string, time.Time] // when an interface without a VM was first seen
	fresh *driverkit.Cache[string, resource]  // instances that EC2 may not show yet, by id
	// Instances whose parts have their tag for what becomes of them, by id.
	recorded *driverkit.Cache[string, bool]
	// Subnet by token of launches whose outcome is unknown. EC2 keeps the tokens of each
	// zone apart, so it would make a second instance for another subnet. Only the process
	// that has sent the launch knows it.
	sent *driverkit.Cache[string, string]

	identity *driverkit.Cache[struct{}, string]       // the AWS account, which never changes
	unnamed  *driverkit.Cache[struct{}, *cloud.Error] // why STS did not name it a moment ago
}

// lookup is what lookups by name have in common that can share a call.
type lookup struct {
	kind cloud.Kind
	keys string // of the ownership tags
}

func newAccount(o Options, region string, c connection) *account {
	forever := driverkit.CacheOptions{Now: o.Now, Timeout: batchTimeout}
	a := &account{
		region: region, now: o.Now, client: c.ec2, objects: c.s3, refresh: c.refresh, balancers: c.balancers, sts: c.sts,
		identity: driverkit.NewCache[struct{}, string](driverkit.CacheOptions{Now: o.Now, Timeout: identityTimeout}),
		unnamed:  driverkit.NewCache[struct{}, *cloud.Error](driverkit.CacheOptions{Now: o.Now, Keep: unnamedAge}),
		roots:    driverkit.NewCache[string, string](forever), zones: driverkit.NewCache[string, string](forever),
		recorded: driverkit.NewCache[string, bool](forever),
		loose:    driverkit.NewCache[string, time.Time](forever), sent: driverkit.NewCache[string, string](forever),
		fresh: driverkit.NewCache[string, resource](driverkit.CacheOptions{Keep: settleTime, Now: o.Now}),
	}
	batched := driverkit.BatchOptions{Window: o.Window, Max: batchMax, Timeout: batchTimeout}
	a.byID, a.ender = driverkit.NewBatcher(batched, a.lookUpIDs), driverkit.NewBatcher(batched, a.terminate)
	batched.Max = namesMax
	a.byName = driverkit.NewBatcher(batched, a.lookUpNames)
	return a
}

// rootDevice returns the name of the root device of an image.
func (a *account) rootDevice(ctx context.Context, ami string) (string, error) {
	return a.roots.Get(ctx, opCreate, ami, func(ctx context.Context) (string, error) {
		out, e := ask(ctx, a, opCreate, a.client.DescribeImages, &ec2.DescribeImagesInput{ImageIds: []string{ami}})
		if e == nil && (len(out.Images) == 0 || awssdk.ToString(out.Images[0].RootDeviceName) == "") {
			e = cloud.Errorf(cloud.Invalid, opCreate, "InvalidAMIID.NotFound", "EC2 does not show image %s", ami)
		}
		if e != nil {
			return "", driverkit.WithField(e, "ami", "name an image that this account can use in this region")
		}
		return *out.Images[0].RootDeviceName, nil
	})
}

// zoneOf returns the zone of a subnet.
func (a *account) zoneOf(ctx context.Context, subnet string) (string, error) {
	return a.zones.Get(ctx, opSubnet, subnet, func(ctx context.Context) (string, error) {
		out, e := ask(ctx, a, opSubnet, a.client.DescribeSubnets, &ec2.DescribeSubnetsInput{SubnetIds: []string{subnet}})
		if e == nil && len(out.Subnets) == 0 {
			e = cloud.Errorf(cloud.Invalid, opSubnet, "InvalidSubnetID.NotFound", "EC2 does not show subnet %s", subnet)
		}
		if e != nil {
			return "", e
		}
		return awssdk.ToString(out.Subnets[0].AvailabilityZone), nil
	})
}

// learn remembers the zone of a VM's subnet.
func (a *account) learn(i types.Instance) {
	if i.SubnetId != nil && i.Placement != nil && awssdk.ToString(i.Placement.AvailabilityZone) != "" {
		a.zones.Put(*i.SubnetId, *i.Placement.AvailabilityZone)
	}
}

// bootData returns where the boot data of a class is kept; ok is false if that is with the
// instance.
func (a *account) bootData(s *spec) (store bootdata.Store, ok bool) {
	if !s.PrivateUserData.Usable() {
		return bootdata.Store{}, false
	}
	return bootdata.NewStore(a.objects, s.PrivateUserData, s.Tags, s.ownership), true
}

// userData returns what the instance of r gets as user data: its boot data, or what fetches
// that where the class keeps it private.
func (a *account) userData(ctx context.Context, s *spec, r cloud.CreateRequest) ([]byte, error) {
	store, private := a.bootData(s)
	if !private {
		return r.UserData, nil
	}
	return store.Keep(ctx, opCreate, r)
}
