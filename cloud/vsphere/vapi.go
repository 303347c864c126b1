package vsphere

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vapi/library"
	"github.com/vmware/govmomi/vapi/rest"
	"github.com/vmware/govmomi/vapi/tags"
	vmtx "github.com/vmware/govmomi/vapi/vcenter"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// tagIDPrefix begins the ids of tags.
const tagIDPrefix = "urn:vmomi:"

// restAPI is a session with vCenter's REST API, which alone has tags and content
// libraries. It is opened when a class first needs it, and again when it has ended.
type restAPI struct {
	logins *driverkit.Login[*rest.Client]
	last   atomic.Pointer[rest.Client] // of the last login; nil before the first
}

func newRESTAPI(v *vcenter) *restAPI {
	p := &restAPI{}
	options := v.loginOptions(v.who.fingerprint + " rest")
	p.logins = driverkit.NewLogin(options, func(ctx context.Context) (*rest.Client, error) {
		client := rest.NewClient(v.Client)
		client.Transport = v.http.Transport
		if err := client.Login(ctx, url.UserPassword(v.who.user, v.who.password)); err != nil {
			return nil, fail(opLogin, err)
		}
		p.last.Store(client)
		return client, nil
	})
	return p
}

// do makes calls, and makes them again after a login when the session had ended.
func (p *restAPI) do(ctx context.Context, calls func(*rest.Client) error) error {
	client, generation, err := p.logins.Get(ctx, opLogin)
	if err != nil {
		return err
	}
	if err := calls(client); !hasStatus(err, http.StatusUnauthorized) {
		return err
	}
	if err := p.logins.Renew(ctx, opLogin, generation); err != nil {
		return err
	}
	if client, _, err = p.logins.Get(ctx, opLogin); err != nil {
		return err
	}
	return calls(client)
}

// end logs out if somebody has logged in.
func (p *restAPI) end(ctx context.Context) {
	p.logins.Close()
	if client := p.last.Load(); client != nil {
		_ = client.Logout(ctx) // it would end by itself
	}
}

// hasStatus reports whether an error is an answer of that HTTP status.
func hasStatus(err error, status int) bool {
	e, ok := errors.AsType[*statusError](err)
	return ok && e.status == status
}

// absent explains that a field names nothing that the REST API shows. It returns other
// errors as they are.
func absent(field, name string, err error) error {
	if err != nil && !hasStatus(err, http.StatusNotFound) {
		return err
	}
	return missing(field, name, cloud.BlocksCreate, &find.NotFoundError{})
}

// tagIDs returns the ids of the class's tags of vSphere.
func (a *account) tagIDs(ctx context.Context, s *spec) ([]string, error) {
	if len(s.VSphereTags) == 0 {
		return nil, nil
	}
	key, _ := json.Marshal(s.VSphereTags) // strings only, so it never fails
	ref, err := a.inventory.lookup(ctx, "vsphereTags", string(key), func(ctx context.Context) (object.Reference, error) {
		var ids []string
		err := a.v.rest.do(ctx, func(c *rest.Client) (err error) {
			ids, err = findTags(ctx, tags.NewManager(c), s.VSphereTags)
			return err
		})
		return types.ManagedObjectReference{Type: "Tags", Value: strings.Join(ids, " ")}, err
	})
	return strings.Fields(ref.Value), err
}

// attach gives a VM the class's tags of vSphere. It can be repeated.
func (a *account) attach(ctx context.Context, s *spec, vm types.ManagedObjectReference) error {
	ids, err := a.tagIDs(ctx, s)
	if err != nil || len(ids) == 0 {
		return err
	}
	err = a.v.rest.do(ctx, func(c *rest.Client) error {
		return tags.NewManager(c).AttachMultipleTagsToObject(ctx, ids, vm)
	})
	if refused, ok := errors.AsType[tags.BatchErrors](err); ok {
		a.inventory.forget() // a tag was replaced, perhaps
		return wrong(opCreate, "vsphereTags", "cannot be attached, because vCenter says: "+refused.Error()+
			"; correct the tags")
	}
	if hasStatus(err, http.StatusNotFound) {
		a.inventory.forget() // a tag was replaced, perhaps
		return cloud.Errorf(cloud.Unavailable, opCreate, "TagNotFound",
			"vCenter no longer shows the VM or a tag of vsphereTags: %w; the tags are looked up again", driverkit.Innermost(err))
	}
	return err
}

// findTags returns the ids of these tags, which VMs can have together.
func findTags(ctx context.Context, m *tags.Manager, wanted []tag) ([]string, error) {
	var ids []string
	single := map[string]bool{} // categories of which an object has one tag only
	for i, t := range wanted {
		field := fmt.Sprintf("vsphereTags[%d]", i)
		found, category, err := findTag(ctx, m, field, t)
		if err != nil {
			return nil, err
		}
		switch {
		case len(category.AssociableTypes) > 0 && !slices.Contains(category.AssociableTypes, "VirtualMachine"):
			return nil, wrong(opCreate, field, fmt.Sprintf(
				"is of category %q, whose tags VMs cannot have; allow virtual machines in the category or remove the tag",
				category.Name))
		case single[category.ID] && !slices.Contains(ids, found.ID):
			return nil, wrong(opCreate, field, fmt.Sprintf(
				"is a second tag of category %q, of which an object has one tag only; remove one", category.Name))
		}
		single[category.ID] = category.Cardinality == "SINGLE"
		ids = append(ids, found.ID)
	}
	return ids, nil
}

// findTag returns a tag by its id, or by its name and category.
func findTag(ctx context.Context, m *tags.Manager, field string, t tag) (*tags.Tag, *tags.Category, error) {
	if t.ID != "" {
		found, err := m.GetTag(ctx, t.ID)
		if err != nil {
			return nil, nil, absent(field+".id", t.ID, err)
		}
		category, err := m.GetCategory(ctx, found.CategoryID)
		return found, category, err
	}
	category, err := findCategory(ctx, m, t.Category)
	if err != nil || category == nil {
		return nil, nil, absent(field+".category", t.Category, err)
	}
	ids, err := m.ListTagsForCategory(ctx, category.ID)
	if err != nil {
		return nil, nil, err
	}
	for _, id := range ids {
		found, err := m.GetTag(ctx, id)
		switch {
		case hasStatus(err, http.StatusNotFound):
			continue // it was deleted meanwhile
		case err != nil:
			return nil, nil, err
		case found.Name == t.Name:
			return found, category, nil
		}
	}
	return nil, nil, absent(field+".name", t.Name, nil)
}

// findCategory returns the category of that name or id; nil if there is none.
func findCategory(ctx context.Context, m *tags.Manager, name string) (*tags.Category, error) {
	if strings.HasPrefix(name, tagIDPrefix) {
		return m.GetCategory(ctx, name)
	}
	ids, err := m.ListCategories(ctx)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		found, err := m.GetCategory(ctx, id)
		switch {
		case hasStatus(err, http.StatusNotFound):
			continue // it was deleted meanwhile
		case err != nil, found.Name == name:
			return found, err
		}
	}
	return nil, nil //nolint:nilnil // there is none
}

// libraryTemplate returns the template behind the class's item of a content library.
// It is an object of the inventory like any other template, so it is cloned like one.
func (a *account) libraryTemplate(ctx context.Context, item libraryItem) (types.ManagedObjectReference, error) {
	key := item.Library + "\n" + item.Item
	return a.inventory.lookup(ctx, "libraryItem", key, func(ctx context.Context) (object.Reference, error) {
		var ref types.ManagedObjectReference
		err := a.v.rest.do(ctx, func(c *rest.Client) error {
			id, err := findItem(ctx, library.NewManager(c), item)
			if err != nil {
				return err
			}
			info, err := vmtx.NewManager(c).GetLibraryTemplateInfo(ctx, id)
			if err == nil {
				ref = types.ManagedObjectReference{Type: "VirtualMachine", Value: info.VmTemplate}
			}
			return err
		})
		if err == nil && ref.Value == "" {
			err = cloud.Errorf(cloud.Unavailable, "find libraryItem", "NoTemplate",
				"vCenter does not show the template of item %q in its content library", item.Item)
		}
		return ref, err
	})
}

// findItem returns the id of an item, which has to be a VM template.
func findItem(ctx context.Context, m *library.Manager, item libraryItem) (string, error) {
	in, err := m.FindLibrary(ctx, library.Find{Name: item.Library})
	if err != nil {
		return "", err
	}
	if len(in) == 0 {
		by, err := m.GetLibraryByID(ctx, item.Library)
		if err != nil {
			return "", absent("libraryItem.library", item.Library, err)
		}
		in = []string{by.ID}
	}
	if len(in) > 1 {
		return "", wrong("find libraryItem", "libraryItem.library", fmt.Sprintf(
			"names %q, of which there are several; name it by its id", item.Library))
	}
	ids, err := m.FindLibraryItems(ctx, library.FindItem{LibraryID: in[0], Name: item.Item})
	if err != nil {
		return "", err
	}
	if len(ids) == 0 {
		ids = []string{item.Item}
	}
	found, err := m.GetLibraryItem(ctx, ids[0])
	switch {
	case err != nil, found.LibraryID != in[0]:
		return "", absent("libraryItem.item", item.Item, err)
	case found.Type != library.ItemTypeVMTX:
		return "", wrong("find libraryItem", "libraryItem.item", fmt.Sprintf(
			"names %q, which is of type %q and no VM template; make a VM from it and clone that to the library as a VM template",
			item.Item, found.Type))
	}
	return found.ID, nil
}
