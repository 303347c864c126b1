package openstack

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// asked is what a request of Cinder's API says.
type asked struct {
	method, project, kind, id, action, key string
	query                                  url.Values
	body                                   []byte
}

// ServeHTTP answers as Cinder does.
func (c *cinder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, backdoorPath) {
		c.serveTests(w, r)
		return
	}
	w.Header().Set("OpenStack-API-Version", "volume 3.70")
	if strings.Trim(r.URL.Path, "/") == "" || strings.Trim(r.URL.Path, "/") == "v3" {
		reply(w, http.StatusMultipleChoices, object{"versions": []object{{
			"id": "v3.0", "status": "CURRENT", "version": "3.70", "min_version": "3.0",
			"links": []object{{"rel": "self", "href": "http://" + r.Host + "/v3/"}},
		}}})
		return
	}
	in := asked{method: r.Method, query: r.URL.Query()}
	for i, part := range strings.Split(strings.Trim(r.URL.Path, "/"), "/") {
		for at, into := range []*string{new(string), &in.project, &in.kind, &in.id, &in.action, &in.key} {
			if at == i {
				*into = part
			}
		}
	}
	if !c.may(r, in.project) {
		refuse(w, http.StatusUnauthorized, "error", "The request you have made requires authentication.")
		return
	}
	var err error
	if in.body, err = io.ReadAll(r.Body); err != nil {
		return // the client has gone
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.age()
	switch in.kind {
	case "volumes":
		c.serveVolumes(w, in)
	case "attachments":
		c.serveAttachments(w, in)
	default:
		refuse(w, http.StatusNotFound, "itemNotFound", "The resource could not be found.")
	}
}

// may reports whether the token of a request is good for the project, or for the
// services' own.
func (c *cinder) may(r *http.Request, project string) bool {
	const believed = 2 * time.Second
	token := r.Header.Get("X-Auth-Token")
	c.mu.Lock()
	k, there := c.tokens[token]
	c.mu.Unlock()
	if !there || time.Now().After(k.until) {
		of, ok := c.projectOf(r.Context(), token)
		if !ok {
			return false
		}
		k = known{project: of, until: time.Now().Add(believed)}
		c.mu.Lock()
		c.tokens[token] = k
		c.mu.Unlock()
	}
	return k.project == project
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if body != nil {
		_ = json.NewEncoder(w).Encode(body) // the client has gone
	}
}

func refuse(w http.ResponseWriter, status int, kind, message string) {
	reply(w, status, object{kind: object{"code": status, "message": message}})
}

func (c *cinder) serveVolumes(w http.ResponseWriter, in asked) {
	switch {
	case in.method == http.MethodPost && in.id == "":
		c.createVolume(w, in.project, in.body)
	case in.method == http.MethodGet && in.id == "detail":
		c.listVolumes(w, in)
	case c.volumes[in.id] == nil || c.volumes[in.id].Project != in.project:
		refuse(w, http.StatusNotFound, "itemNotFound", "Volume "+in.id+" could not be found.")
	default:
		c.serveVolume(w, in, c.volumes[in.id])
	}
}

func (c *cinder) serveVolume(w http.ResponseWriter, in asked, v *Volume) {
	if in.action == "metadata" {
		c.serveMetadata(w, in, v)
		return
	}
	switch in.method {
	case http.MethodGet:
		reply(w, http.StatusOK, object{"volume": c.show(v)})
	case http.MethodPut:
		c.updateVolume(w, v, in.body)
	case http.MethodDelete:
		if len(c.attached(v.ID)) > 0 || v.Status == "in-use" || v.Status == "deleting" {
			refuse(w, http.StatusBadRequest, "badRequest",
				"Invalid volume: Volume status must be available or error and must not be attached.")
			return
		}
		v.Status, v.ready = "deleting", time.Now().Add(volumeTime)
		reply(w, http.StatusAccepted, nil)
	case http.MethodPost:
		reply(w, http.StatusAccepted, nil) // os-begin_detaching and the like: attachments say the rest
	default:
		refuse(w, http.StatusMethodNotAllowed, "badMethod", "The method is not allowed.")
	}
}

// serveMetadata adds entries to the metadata of a volume, or deletes one.
func (c *cinder) serveMetadata(w http.ResponseWriter, in asked, v *Volume) {
	_, there := v.Metadata[in.key]
	var more struct {
		Metadata map[string]string `json:"metadata"`
	}
	metadata := maps.Clone(v.Metadata)
	switch {
	case in.method == http.MethodDelete && !there:
		refuse(w, http.StatusNotFound, "itemNotFound", "Metadata item was not found.")
	case in.method == http.MethodDelete:
		delete(metadata, in.key)
		v.Metadata = metadata
		reply(w, http.StatusOK, nil)
	case in.method != http.MethodPost || in.key != "":
		refuse(w, http.StatusMethodNotAllowed, "badMethod", "The method is not allowed.")
	case json.Unmarshal(in.body, &more) != nil || !metadataFits(more.Metadata):
		refuse(w, http.StatusBadRequest, "badRequest", "Invalid input for field/attribute metadata.")
	default:
		if metadata == nil {
			metadata = map[string]string{}
		}
		maps.Copy(metadata, more.Metadata)
		v.Metadata = metadata
		reply(w, http.StatusOK, object{"metadata": metadata})
	}
}

func (c *cinder) createVolume(w http.ResponseWriter, project string, body []byte) {
	var in struct {
		Volume struct {
			Name     string            `json:"name"`
			Size     int               `json:"size"`
			Type     string            `json:"volume_type"`
			Image    string            `json:"imageRef"`
			Zone     string            `json:"availability_zone"`
			Metadata map[string]string `json:"metadata"`
		} `json:"volume"`
	}
	if json.Unmarshal(body, &in) != nil || in.Volume.Size < 1 {
		refuse(w, http.StatusBadRequest, "badRequest", "Invalid input received: size must be a positive integer.")
		return
	}
	if !metadataFits(in.Volume.Metadata) {
		refuse(w, http.StatusBadRequest, "badRequest", "Invalid input for field/attribute metadata.")
		return
	}
	if in.Volume.Type == "no-such-type" {
		refuse(w, http.StatusNotFound, "itemNotFound", "Volume type with name no-such-type could not be found.")
		return
	}
	v := &Volume{
		ID: c.id(1), Project: project, Name: in.Volume.Name, Status: "creating", Size: in.Volume.Size, Type: in.Volume.Type,
		Zone: in.Volume.Zone, ImageID: in.Volume.Image, Metadata: in.Volume.Metadata, Created: time.Now(),
		ready: time.Now().Add(volumeTime),
	}
	c.volumes[v.ID] = v
	reply(w, http.StatusAccepted, object{"volume": c.show(v)})
}

// updateVolume replaces the name or the metadata.
func (c *cinder) updateVolume(w http.ResponseWriter, v *Volume, body []byte) {
	var in struct {
		Volume struct {
			Name     *string           `json:"name"`
			Metadata map[string]string `json:"metadata"`
		} `json:"volume"`
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if decoder.Decode(&in) != nil || !metadataFits(in.Volume.Metadata) {
		refuse(w, http.StatusBadRequest, "badRequest", "Invalid input for field/attribute volume.")
		return
	}
	if in.Volume.Name != nil {
		v.Name = *in.Volume.Name
	}
	if in.Volume.Metadata != nil {
		v.Metadata = in.Volume.Metadata
	}
	reply(w, http.StatusOK, object{"volume": c.show(v)})
}

// metadataFits reports whether Cinder takes metadata of these lengths.
func metadataFits(metadata map[string]string) bool {
	const most = 255
	for key, value := range metadata {
		if key == "" || len(key) > most || len(value) > most {
			return false
		}
	}
	return true
}

// listVolumes answers with a page of what has the name, after the marker.
func (c *cinder) listVolumes(w http.ResponseWriter, in asked) {
	marker, limit := in.query.Get("marker"), PageSize
	if n, err := strconv.Atoi(in.query.Get("limit")); err == nil {
		limit = min(limit, n)
	}
	if marker != "" && c.volumes[marker] == nil {
		refuse(w, http.StatusNotFound, "itemNotFound", "Volume "+marker+" could not be found.")
		return
	}
	out := object{}
	all := []object{}
	for _, id := range slices.Sorted(maps.Keys(c.volumes)) {
		name := in.query.Get("name")
		if v := c.volumes[id]; v.Project != in.project || name != "" && v.Name != name || id <= marker {
			continue
		}
		if len(all) == limit {
			out["volumes_links"] = []object{{"rel": "next", "href": "http://unused"}}
			break
		}
		all = append(all, c.show(c.volumes[id]))
	}
	out["volumes"] = all
	reply(w, http.StatusOK, out)
}

// show is a volume on the wire. The lock is held.
func (c *cinder) show(v *Volume) object {
	attachments := []object{}
	for _, a := range c.attached(v.ID) {
		attachments = append(attachments, object{
			"id": v.ID, "attachment_id": a.id, "volume_id": v.ID, "server_id": a.server,
			"device": "/dev/vdb",
		})
	}
	metadata := v.Metadata
	if metadata == nil {
		metadata = map[string]string{}
	}
	out := object{
		"id": v.ID, "name": v.Name, "description": "", "status": v.Status, "size": v.Size, "volume_type": v.Type,
		"availability_zone": v.Zone, "metadata": metadata,
		"attachments": attachments, "multiattach": false, "bootable": "false",
		"created_at": v.Created.UTC().Format("2006-01-02T15:04:05.000000"),
		"encrypted":  false, "os-vol-tenant-attr:tenant_id": v.Project, "snapshot_id": nil, "shared_targets": false,
		"service_uuid": nil,
	}
	if v.ImageID != "" {
		out["bootable"] = "true"
		out["volume_image_metadata"] = object{
			"image_id": v.ImageID, "min_disk": "1", "min_ram": "0", "disk_format": "raw",
			"container_format": "bare", "size": "4096",
		}
	}
	return out
}

func (c *cinder) serveAttachments(w http.ResponseWriter, in asked) {
	a := c.attachments[in.id]
	switch {
	case in.method == http.MethodPost && in.id == "":
		c.attach(w, in.body)
	case a == nil:
		refuse(w, http.StatusNotFound, "itemNotFound", "Volume attachment could not be found with filter: attachment_id = "+
			in.id+".")
	case in.method == http.MethodPut:
		a.connector = true
		reply(w, http.StatusOK, object{"attachment": a.show()})
	case in.method == http.MethodPost:
		a.done = true
		c.volumes[a.volume].Status = "in-use"
		reply(w, http.StatusNoContent, nil)
	case in.method == http.MethodDelete:
		delete(c.attachments, in.id)
		if v := c.volumes[a.volume]; len(c.attached(v.ID)) == 0 && v.Status != "deleting" {
			v.Status = "available"
		}
		reply(w, http.StatusOK, object{"attachments": []object{}})
	default:
		reply(w, http.StatusOK, object{"attachment": a.show()})
	}
}

// attach reserves a volume for a server, which must be the only one.
func (c *cinder) attach(w http.ResponseWriter, body []byte) {
	var in struct {
		Attachment struct {
			Volume    string          `json:"volume_uuid"`
			Server    string          `json:"instance_uuid"`
			Connector json.RawMessage `json:"connector"`
		} `json:"attachment"`
	}
	if json.Unmarshal(body, &in) != nil {
		refuse(w, http.StatusBadRequest, "badRequest", "Invalid input received.")
		return
	}
	v := c.volumes[in.Attachment.Volume]
	if v == nil {
		refuse(w, http.StatusNotFound, "itemNotFound", "Volume "+in.Attachment.Volume+" could not be found.")
		return
	}
	for _, other := range c.attached(v.ID) {
		if other.server != in.Attachment.Server {
			refuse(w, http.StatusBadRequest, "badRequest", "Invalid volume: Volume "+v.ID+
				" status must be available or downloading to reserve, but the current status is "+v.Status+".")
			return
		}
	}
	a := &attachment{id: c.id(2), volume: v.ID, server: in.Attachment.Server}
	c.attachments[a.id] = a
	if v.Status == "available" {
		v.Status = "reserved"
	}
	reply(w, http.StatusOK, object{"attachment": a.show()})
}

func (a *attachment) show() object {
	status := "reserved"
	info := object{}
	if a.connector {
		status, info = "attaching", object{"driver_volume_type": "fake", "volume_id": a.volume}
	}
	if a.done {
		status = "attached"
	}
	return object{
		"id": a.id, "volume_id": a.volume, "instance": a.server, "status": status, "attach_mode": "rw",
		"connection_info": info, "attached_at": nil, "detached_at": nil,
	}
}
