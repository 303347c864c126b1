package aws

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/aws/elb"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

const (
	opRegister   = "register target"
	opDeregister = "deregister target"

	codeNoTargetGroup = "TargetGroupNotFound"
	codeInvalidTarget = "InvalidTarget" // e.g. in another VPC, so it cannot be registered

	waitForRunning  = 5 * time.Second // until an instance that is pending is looked at again
	waitForDraining = 10 * time.Second
)

// targetGroupSpec is a target group of instances, an addition to MCM's spec.
type targetGroupSpec struct {
	ARN  string `json:"arn"`
	Port int32  `json:"port"` // of the instances
}

// targetGroupARN has the region as its first group.
var targetGroupARN = regexp.MustCompile(
	`\Aarn:aws[a-z-]*:elasticloadbalancing:([a-z0-9-]+):[0-9]{12}:targetgroup/[A-Za-z0-9-]+/[0-9a-f]+\z`)

// validateTargetGroups checks the target groups.
func (s *spec) validateTargetGroups() {
	var places []string
	for i, g := range s.TargetGroups {
		at := fmt.Sprintf("targetGroups[%d].", i)
		if s.Wrong(strings.TrimSuffix(at, ".")) && g == (targetGroupSpec{}) {
			continue // it is no object at all
		}
		places = append(places, g.place())
		s.Require(cloud.BlocksCreate, at+"arn", g.ARN, "name the target group by its ARN")
		parts := targetGroupARN.FindStringSubmatch(g.ARN)
		s.BlockIf(g.ARN != "" && parts == nil && !s.Wrong(at+"arn"), at+"arn", "is not the ARN of a target group; it looks "+
			"like arn:aws:elasticloadbalancing:eu-west-1:123456789012:targetgroup/name/0123456789abcdef")
		s.BlockIf(parts != nil && s.Region != "" && parts[1] != s.Region, at+"arn",
			"is of another region than the class; name a target group of region %s", s.Region)
		s.Between(at+"port", &g.Port, 1, math.MaxUint16)
	}
	s.Distinct("targetGroups", "arn", places, "remove one of them")
}

// place is the text for it of Memberships.
func (g targetGroupSpec) place() string { return g.ARN + ":" + strconv.Itoa(int(g.Port)) }

// Memberships returns the target groups of c, each as <ARN>:<port>.
func (d *Driver) Memberships(c cloud.Class) []string {
	s, ok := c.Spec.(*spec)
	if !ok {
		return nil
	}
	var places []string
	for _, g := range s.TargetGroups {
		if targetGroupARN.MatchString(g.ARN) && g.Port > 0 {
			places = append(places, g.place())
		}
	}
	slices.Sort(places)
	return slices.Compact(places)
}

// targetOf returns the target that an instance is at a place.
func targetOf(op, place, instance string) (elb.Target, error) {
	cut := strings.LastIndex(place, ":")
	port, err := strconv.Atoi(place[cut+1:])
	if cut < 0 || err != nil || !targetGroupARN.MatchString(place[:cut]) {
		return elb.Target{}, cloud.Errorf(cloud.Invalid, op, "InvalidPlace", "%q is no target group with a port", place)
	}
	return elb.Target{Group: place[:cut], Instance: instance, Port: port}, nil
}

// Register adds the instance of r to target groups, once it runs.
func (a *account) Register(ctx context.Context, r cloud.Ref, places []string) (cloud.Registration, error) {
	s, err := driverkit.SpecOf[*spec](opRegister, r.Class)
	if err != nil {
		return cloud.Registration{}, err
	}
	vm, err := a.staying(ctx, opRegister, s, r)
	if err != nil {
		return cloud.Registration{}, driverkit.Restrict(err, cloud.NotFound)
	}
	if vm.state != string(types.InstanceStateNameRunning) {
		return cloud.Registration{
			RetryAfter: waitForRunning, Waiting: []string{fmt.Sprintf("instance %s is %s", vm.id, vm.state)},
		}, nil
	}
	for _, place := range places {
		target, err := targetOf(opRegister, place, vm.id)
		if err != nil {
			return cloud.Registration{}, err
		}
		e := a.send(ctx, opRegister, func() error { return a.balancers.Register(ctx, target) })
		if e != nil {
			return cloud.Registration{}, driverkit.Restrict(e, cloud.Invalid, cloud.Exhausted)
		}
	}
	return cloud.Registration{Done: true}, nil
}

// Deregister removes the instance of r from target groups, and reports whether they have
// closed its connections. Elastic Load Balancing itself removes instances that are terminated.
func (a *account) Deregister(ctx context.Context, r cloud.Ref, places []string) (cloud.Registration, error) {
	s, err := driverkit.SpecOf[*spec](opDeregister, r.Class)
	if err != nil {
		return cloud.Registration{}, driverkit.Restrict(err)
	}
	vm, err := a.staying(ctx, opDeregister, s, r)
	if cloud.CodeOf(err) == cloud.NotFound {
		return cloud.Registration{Done: true}, nil
	}
	if err != nil {
		return cloud.Registration{}, driverkit.Restrict(err)
	}
	out := cloud.Registration{}
	for _, place := range places {
		target, err := targetOf(opDeregister, place, vm.id)
		if err != nil {
			return cloud.Registration{}, err
		}
		left, err := a.leave(ctx, target)
		if err != nil {
			return cloud.Registration{}, err
		}
		if !left {
			out.Waiting, out.RetryAfter = append(out.Waiting, place+": draining"), waitForDraining
		}
	}
	slices.Sort(out.Waiting)
	out.Done = len(out.Waiting) == 0
	return out, nil
}

// leave deregisters a target, and reports whether it is out of its group.
func (a *account) leave(ctx context.Context, t elb.Target) (bool, error) {
	health, err := a.healthOf(ctx, t)
	if err != nil || !health.Registered() {
		return err == nil, err
	}
	if !health.Draining() {
		e := a.send(ctx, opDeregister, func() error { return a.balancers.Deregister(ctx, t) })
		if e != nil && !cannotBeTarget(e) {
			return false, driverkit.Restrict(e)
		}
		health, err = a.healthOf(ctx, t)
	}
	return err == nil && !health.Registered(), err
}

// cannotBeTarget reports whether a target is not registered because it cannot be.
func cannotBeTarget(e *cloud.Error) bool {
	return e.Reason == codeNoTargetGroup || e.Reason == codeInvalidTarget
}

// healthOf returns the health of a target. One that cannot be registered, e.g. because there is
// no such target group, is not.
func (a *account) healthOf(ctx context.Context, t elb.Target) (elb.Health, error) {
	var health elb.Health
	e := a.send(ctx, opDeregister, func() (err error) { health, err = a.balancers.Health(ctx, t); return err })
	switch {
	case e == nil:
		return health, nil
	case cannotBeTarget(e):
		return elb.Health{State: "unused", Reason: "Target.NotRegistered"}, nil
	}
	return elb.Health{}, driverkit.Restrict(e)
}
