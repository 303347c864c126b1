package vcentertest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vapi/library"
	"github.com/vmware/govmomi/vapi/rest"
	"github.com/vmware/govmomi/vapi/tags"
	vmtx "github.com/vmware/govmomi/vapi/vcenter"
	"github.com/vmware/govmomi/vim25/types"
)

// AttachTag is the privilege without which the REST API attaches no tag.
const AttachTag = "InventoryService.Tagging.AttachTag"

const (
	restRoot    = "/rest/com/vmware/"
	templates   = "/rest/vcenter/vm-template/library-items/"
	associating = "/rest/com/vmware/cis/tagging/tag-association"
	sessionID   = "vmware-api-session-id"
)

// restAPI answers what the simulator's REST API does not check or know.
type restAPI struct {
	v     *VCenter
	inner http.Handler // the simulator's
	owner *rest.Client

	mu        sync.Mutex
	seen      map[string]bool   // sessions; false for those that have ended
	templates map[string]string // VMs behind items of content libraries
}

// serveREST stands in front of the simulator's REST API.
func (v *VCenter) serveREST(ctx context.Context) error {
	mux := v.model.Service.ServeMux
	inner, _ := mux.Handler(&http.Request{URL: &url.URL{Path: restRoot}})
	v.rest = &restAPI{v: v, inner: inner, seen: map[string]bool{}, templates: map[string]string{}}
	v.rest.owner = rest.NewClient(v.Client.Client)
	if err := v.rest.owner.Login(ctx, url.UserPassword(User, Password)); err != nil {
		return fmt.Errorf("log in to the REST API: %w", err)
	}
	mux.Handle(restRoot, v.rest)
	mux.Handle(templates, v.rest)
	mux.Handle(strings.TrimSuffix(templates, "/"), v.rest)
	return nil
}

// ServeHTTP refuses what a vCenter refuses.
func (a *restAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get(sessionID)
	if a.ended(id) {
		refuse(w, http.StatusUnauthorized, "unauthenticated", "The session is not authenticated.")
		return
	}
	a.mu.Lock()
	template, known := a.templates[path.Base(r.URL.Path)]
	a.mu.Unlock()
	switch {
	case strings.HasPrefix(r.URL.Path, associating) && id != a.owner.SessionID():
		a.associate(w, r)
	case strings.HasPrefix(r.URL.Path, templates) && r.Method == http.MethodGet && known:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"value": vmtx.TemplateInfo{VmTemplate: template}})
	default:
		a.inner.ServeHTTP(w, r)
	}
}

// ended reports whether a session has ended.
func (a *restAPI) ended(id string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, known := a.seen[id]; !known {
		a.seen[id] = true
	}
	return !a.seen[id]
}

// expire ends all sessions but the owner's.
func (a *restAPI) expire() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id := range a.seen {
		a.seen[id] = id == a.owner.SessionID() || id == ""
	}
}

// associate attaches tags, to VMs that are there, and not two of a category of which an
// object has one.
func (a *restAPI) associate(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	var request struct {
		Object struct {
			ID string `json:"id"`
		} `json:"object_id"`
		Tags []string `json:"tag_ids"`
	}
	_ = json.Unmarshal(body, &request) // what is wrong with it, the simulator says
	if a.v.denies(AttachTag) || !a.v.Exists(request.Object.ID) {
		refuse(w, http.StatusForbidden, "unauthorized", "Permission "+AttachTag+" was denied.")
		return
	}
	if second := a.second(r.Context(), request.Object.ID, request.Tags); second != "" {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"value": map[string]any{
			"success": false,
			"error_messages": []tags.BatchError{{
				Type: "cis.tagging.cardinalityViolation.error", Message: "The category of tag " + second + " allows one tag.",
			}},
		}})
		return
	}
	a.inner.ServeHTTP(w, r)
}

// second returns the first of these tags whose category allows one tag of an object that
// has another one; it is empty if there is none.
func (a *restAPI) second(ctx context.Context, vm string, ids []string) string {
	m := tags.NewManager(a.owner)
	attached, _ := m.ListAttachedTags(ctx, types.ManagedObjectReference{Type: "VirtualMachine", Value: vm})
	single := map[string]string{} // tags by category
	for _, id := range slices.Concat(attached, ids) {
		t, err := m.GetTag(ctx, id)
		if err != nil {
			continue
		}
		category, err := m.GetCategory(ctx, t.CategoryID)
		if err != nil || category.Cardinality != "SINGLE" {
			continue
		}
		if other, there := single[category.ID]; there && other != id {
			return id
		}
		single[category.ID] = id
	}
	return ""
}

// refuse answers as the REST API does.
func refuse(w http.ResponseWriter, status int, kind, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"type":  "com.vmware.vapi.std.errors." + kind,
		"value": map[string]any{"messages": []map[string]any{{"default_message": text, "id": "vapi"}}},
	})
}

// Category makes a category of tags for VMs, and the tags. It returns the tags' ids.
func (v *VCenter) Category(ctx context.Context, category tags.Category, names ...string) ([]string, error) {
	m := tags.NewManager(v.rest.owner)
	in, err := m.CreateCategory(ctx, &category)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, name := range names {
		id, err := m.CreateTag(ctx, &tags.Tag{Name: name, CategoryID: in})
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// Tags returns the names of the tags of a VM, sorted.
func (v *VCenter) Tags(ctx context.Context, vm *object.VirtualMachine) ([]string, error) {
	attached, err := tags.NewManager(v.rest.owner).GetAttachedTags(ctx, vm)
	var names []string
	for _, t := range attached {
		names = append(names, t.Name)
	}
	slices.Sort(names)
	return names, err
}

// Publish makes a content library with these items, which are copies of the template;
// those whose name ends in ".ovf" are no VM templates.
func (v *VCenter) Publish(ctx context.Context, name string, items ...string) error {
	store, err := v.Finder.Datastore(ctx, Datastore)
	if err != nil {
		return err
	}
	template, err := v.Finder.VirtualMachine(ctx, Template)
	if err != nil {
		return err
	}
	libraries := library.NewManager(v.rest.owner)
	id, err := libraries.CreateLibrary(ctx, library.Library{
		Name: name, Type: "LOCAL",
		Storage: []library.StorageBacking{{DatastoreID: store.Reference().Value, Type: "DATASTORE"}},
	})
	if err != nil {
		return err
	}
	for _, item := range items {
		if strings.HasSuffix(item, ".ovf") {
			_, err = libraries.CreateLibraryItem(ctx, library.Item{Name: item, Type: library.ItemTypeOVF, LibraryID: id})
		} else {
			err = v.publishTemplate(ctx, id, item, template.Reference())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// publishTemplate makes an item that is a VM template.
func (v *VCenter) publishTemplate(ctx context.Context, in, item string, template types.ManagedObjectReference) error {
	name := item + " in the library"
	id, err := vmtx.NewManager(v.rest.owner).CreateTemplate(ctx, vmtx.Template{
		Library: in, Name: name, SourceVM: template.Value,
		Placement: &vmtx.Placement{ResourcePool: v.Pool.Reference().Value, Folder: v.parent.Reference().Value},
	})
	if err != nil {
		return err
	}
	if err := library.NewManager(v.rest.owner).UpdateLibraryItem(ctx, &library.Item{ID: id, Name: item}); err != nil {
		return err
	}
	vm, err := v.Finder.VirtualMachine(ctx, name)
	if err != nil {
		return err
	}
	v.rest.mu.Lock()
	defer v.rest.mu.Unlock()
	v.rest.templates[id] = vm.Reference().Value
	return nil
}
