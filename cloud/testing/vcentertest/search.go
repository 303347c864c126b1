package vcentertest

import (
	"strings"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// search is the search index of the simulator, which reads folders and names without
// locks while tasks change them: here it looks between two tasks.
type search struct {
	simulator.SearchIndex

	root  types.ManagedObjectReference
	turns *turns
}

// FindChild finds a child of an object by name.
func (s *search) FindChild(ctx *simulator.Context, r *types.FindChild) (body soap.HasFault) {
	s.turns.between(func() { body = s.SearchIndex.FindChild(ctx, r) })
	return body
}

// FindByInventoryPath goes down from the root folder, child by child.
func (s *search) FindByInventoryPath(ctx *simulator.Context, r *types.FindByInventoryPath) soap.HasFault {
	body := &methods.FindByInventoryPathBody{Res: &types.FindByInventoryPathResponse{}}
	at := &s.root
	for name := range strings.SplitSeq(strings.Trim(r.InventoryPath, "/"), "/") {
		if name == "" {
			break
		}
		found, ok := s.FindChild(ctx, &types.FindChild{Entity: *at, Name: name}).(*methods.FindChildBody)
		if !ok || found.Res == nil || found.Res.Returnval == nil {
			return body
		}
		at = found.Res.Returnval
	}
	body.Res.Returnval = at
	return body
}
