package openstack

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
)

// Live returns the project's servers as an administrator sees them now.
func (p *Project) Live(ctx context.Context) ([]Server, error) {
	var out struct {
		Servers []Server `json:"servers"`
	}
	err := p.Rig.admin.do(ctx, http.MethodGet, "nova/servers/detail?all_tenants=1&project_id="+p.ID, nil, &out)
	return out.Servers, err
}

// Delete asks for a server to go, as an administrator. One that is gone is no error.
func (p *Project) Delete(ctx context.Context, id string) error {
	err := p.Rig.admin.do(ctx, http.MethodDelete, "nova/servers/"+id, nil, nil)
	if refusal, ok := errors.AsType[*refusalError](err); ok && refusal.status == http.StatusNotFound {
		return nil
	}
	return err
}

// LivePorts returns the names and ids of the project's ports.
func (p *Project) LivePorts(ctx context.Context) ([]Port, error) {
	var out struct {
		Ports []Port `json:"ports"`
	}
	err := p.own.do(ctx, http.MethodGet, "neutron/ports?project_id="+p.ID, nil, &out)
	return out.Ports, err
}

// ImageID is the id of a server's image.
type ImageID string

// UnmarshalJSON reads what Nova says of an image: an object with its id, or an empty string.
func (id *ImageID) UnmarshalJSON(text []byte) error {
	if string(text) == `""` {
		*id = ""
		return nil
	}
	var image struct {
		ID string `json:"id"`
	}
	err := json.Unmarshal(text, &image)
	*id = ImageID(image.ID)
	return err
}
