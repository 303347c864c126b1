package azure

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// ask asks for the VM, with the plan of its image. Where the class skips the agreement, which says that there
// is no plan, and Azure wants one all the same, it asks once more with that of the image: earlier versions of
// the driver sent it. The terms are left alone then.
func (c *creation) ask(ctx context.Context) error {
	p, err := c.planOf(ctx)
	if err != nil {
		return err
	}
	e := c.put(ctx, p)
	switch {
	case e == nil:
		return nil
	case e.Reason == codeTerms:
		c.plans.Forget(c.planKey()) // with it goes that its terms are accepted
	case e.Reason == codeNoPlan && p == nil && c.Properties.Storage.Image.URN != "":
		if p, err = c.lookUp(ctx); err != nil || p == nil {
			return e // which says what to do
		}
		c.plans.Put(c.planKey(), p)
		if e = c.put(ctx, p); e == nil {
			return nil
		}
	}
	return e
}

func (c *creation) put(ctx context.Context, p *plan) *cloud.Error {
	return c.client.do(ctx, opCreate, request{
		method: http.MethodPut, path: c.client.path(c.spec, vmType, c.request.Name), version: computeVersion,
		header: map[string]string{"If-None-Match": "*"}, body: c.machine(c.spec, c.request, p), out: &c.seen,
	})
}

// planKey is that of the image of the class in account.plans.
func (c *creation) planKey() string { return c.Location + " " + c.Properties.Storage.Image.URN }

// planOf returns the plan of a marketplace image, without which Azure makes no VM of it; nil
// if it has none. As with MCM, the terms of the plan are accepted, and nothing is looked up for a
// class that skips the agreement.
func (c *creation) planOf(ctx context.Context) (*plan, error) {
	i := c.Properties.Storage.Image
	switch {
	case i.URN == "":
		return nil, nil //nolint:nilnil // most images have none
	case i.SkipAgreement:
		p, _ := c.plans.Known(c.planKey())
		return p, nil
	}
	return c.plans.Get(ctx, opCreate, c.planKey(), func(ctx context.Context) (*plan, error) {
		p, err := c.lookUp(ctx)
		if err != nil || p == nil {
			return nil, err
		}
		return p, c.accept(ctx, p)
	})
}

// lookUp returns the plan of the class's image, of which all versions have the same; nil if it has none.
func (c *creation) lookUp(ctx context.Context) (*plan, error) {
	i := c.Properties.Storage.Image
	version := *i.reference()
	if version.Version == "latest" {
		var all []struct{ Name string }
		path := strings.TrimSuffix(c.client.images(c.Location, version), "/latest")
		e := c.client.do(ctx, opCreate, request{
			method: http.MethodGet, path: path, version: computeVersion, out: &all,
			query: url.Values{"$top": {"1"}, "$orderby": {"name desc"}},
		})
		if e != nil || len(all) == 0 {
			return nil, missing(e, i.URN)
		}
		version.Version = all[0].Name
	}
	var image struct {
		Properties struct{ Plan *plan }
	}
	e := c.client.do(ctx, opCreate, request{
		method: http.MethodGet, path: c.client.images(c.Location, version), version: computeVersion, out: &image,
	})
	if e != nil {
		return nil, missing(e, i.URN)
	}
	return image.Properties.Plan, nil
}

// accept accepts the terms of a plan for the subscription, unless that is done. Where they may not be
// read, or there are none, the VM is asked for: Azure refuses it if they would have to be accepted.
func (c *creation) accept(ctx context.Context, p *plan) error {
	part := url.PathEscape
	r := request{
		method: http.MethodGet, version: termsVersion, path: "/subscriptions/" + part(c.client.subscription) +
			"/providers/Microsoft.MarketplaceOrdering/offerTypes/virtualmachine/publishers/" + part(p.Publisher) + "/offers/" +
			part(p.Product) + "/plans/" + part(p.Name) + "/agreements/current",
	}
	terms := map[string]any{} // they go back as they came
	r.out = &terms
	e := c.client.do(ctx, opCreate, r)
	if e != nil && (e.Code == cloud.Denied || e.Code == cloud.NotFound) {
		return nil
	}
	if e != nil {
		return driverkit.Restrict(e)
	}
	properties, _ := terms["properties"].(map[string]any)
	if properties == nil {
		return driverkit.BrokenAnswer(opCreate, "the terms of the image have no properties")
	}
	if properties["accepted"] == true {
		return nil
	}
	properties["accepted"] = true
	r.method, r.body, r.out = http.MethodPut, terms, nil
	if e := c.client.do(ctx, opCreate, r); e != nil {
		return driverkit.WithField(e, "properties.storageProfile.imageReference",
			"let the credentials accept the terms of the image, or accept them, e.g. with az vm image terms accept")
	}
	return nil
}

// missing is the error of an image that the cloud does not show; e is nil if it shows others.
func missing(e *cloud.Error, name string) error {
	if e != nil && e.Code != cloud.NotFound && e.Code != cloud.Invalid {
		return e
	}
	return driverkit.WithField(cloud.Errorf(cloud.Invalid, opCreate, "ImageNotFound", "there is no image %s", name),
		"properties.storageProfile.imageReference.urn", imageRemedy)
}
