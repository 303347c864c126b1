package qemu

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// metadataIP is where the metadata services of clouds answer.
const metadataIP = "169.254.169.254"

// Source is how a guest gets its boot data: as a cloud presents it.
type Source struct {
	args     func(*Guest) []string
	metadata http.Handler            // answers at metadataIP; nil: no answer
	services map[string]http.Handler // by the other addresses of the cloud
	hideQEMU bool                    // cloud-init would take the guest for another cloud's otherwise
}

// processor is the model of the processor, without the sign of a hypervisor where that would
// lead cloud-init astray.
func (s Source) processor(model string) string {
	if s.hideQEMU {
		model += ",-hypervisor"
	}
	return model
}

// NoCloud is a volume of cloud-init's own format, as KubeVirt attaches it.
func NoCloud(userData []byte) Source {
	return Source{args: func(g *Guest) []string {
		return g.volume("cidata", map[string][]byte{
			"user-data": userData, "meta-data": []byte("instance-id: " + g.id() + "\nlocal-hostname: " + g.name + "\n"),
		})
	}}
}

// Server is a VM as its cloud's metadata service knows it.
type Server struct {
	ID, Name string
	UserData []byte
}

// EC2 is the instance metadata service of EC2, which wants a token (version 2). The name is the
// private DNS name.
func EC2(s Server) Source {
	return Source{metadata: ec2Metadata(s), args: func(g *Guest) []string { return g.onEC2() }}
}

// EC2Silent is an instance of EC2 whose metadata service does not answer.
func EC2Silent() Source {
	return Source{args: func(g *Guest) []string { return g.onEC2() }}
}

// onEC2 is how a guest knows that it is an instance of EC2.
func (g *Guest) onEC2() []string {
	const serial = "ec2a1b2c-0000-4000-8000-000000000001"
	return []string{
		"-uuid", serial,
		"-smbios", "type=1,manufacturer=Amazon EC2,product=t3.medium,uuid=" + serial + ",serial=" + serial,
	}
}

// OpenStack is the metadata service of Nova.
func OpenStack(s Server) Source {
	return Source{metadata: novaMetadata(s), args: func(*Guest) []string {
		return []string{"-smbios", "type=1,manufacturer=OpenStack Foundation,product=OpenStack Nova"}
	}}
}

// Hetzner is the metadata service of Hetzner Cloud.
func Hetzner(s Server) Source {
	meta := fmt.Sprintf("instance-id: %q\nhostname: %s\npublic-keys: []\nnetwork-config: {version: 1, config: "+
		"[{type: physical, name: eth0, subnets: [{type: dhcp, ipv4: true}]}]}\n", s.ID, s.Name)
	files := map[string][]byte{"metadata": []byte(meta), "metadata/instance-id": []byte(s.ID), "userdata": s.UserData}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /hetzner/v1/{path...}", func(w http.ResponseWriter, r *http.Request) {
		list(w, files, r.PathValue("path"))
	})
	return Source{metadata: mux, args: func(*Guest) []string {
		return []string{"-smbios", "type=1,manufacturer=Hetzner,product=vServer,serial=" + s.ID}
	}}
}

// GCE is the metadata server of Compute Engine with the metadata of an instance, by its keys. The image
// has the server's name in its hosts file, as Google's images do.
func GCE(id, name string, metadata map[string]string) Source {
	const v1 = "GET /computeMetadata/v1/"
	mux := http.NewServeMux()
	for path, answer := range map[string]any{
		"instance/id": id, "instance/zone": "projects/1/zones/europe-west3-b",
		"instance/hostname":       name + ".c.guests.internal",
		"instance/attributes/{$}": metadata, "project/attributes/{$}": map[string]string{},
	} {
		mux.HandleFunc(v1+path, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Metadata-Flavor") != "Google" {
				http.Error(w, "header Metadata-Flavor is missing", http.StatusForbidden)
				return
			}
			if text, ok := answer.(string); ok {
				_, _ = io.WriteString(w, text)
				return
			}
			_ = json.NewEncoder(w).Encode(answer)
		})
	}
	return Source{metadata: mux, args: func(*Guest) []string {
		return []string{"-smbios", "type=1,manufacturer=Google,product=Google Compute Engine"}
	}}
}

// VMware is what a VM's extra configuration says, by its keys, which begin with "guestinfo.".
// The image has a vmware-rpctool that finds it where QEMU puts it.
func VMware(configuration map[string]string) Source {
	return Source{hideQEMU: true, args: func(g *Guest) []string {
		args := []string{
			"-smbios", "type=1,manufacturer=VMware,, Inc.,product=VMware Virtual Platform,serial=VMware-42",
		}
		for key, value := range configuration {
			file := g.path(key)
			g.must(os.WriteFile(file, []byte(value), 0o600))
			args = append(args, "-fw_cfg", "name=opt/"+key+",file="+file)
		}
		return args
	}}
}

// volume attaches a volume with files.
func (g *Guest) volume(label string, files map[string][]byte) []string {
	folder := g.path(label)
	for name, content := range files {
		file := filepath.Join(folder, name)
		g.must(os.MkdirAll(filepath.Dir(file), 0o700))
		g.must(os.WriteFile(file, content, 0o600))
	}
	iso := folder + ".iso"
	g.must(g.command("genisoimage", "-quiet", "-J", "-r", "-V", label, "-o", iso, folder))
	return []string{
		"-drive", "if=none,id=seed,format=raw,readonly=on,file=" + iso, "-device", "virtio-blk-pci,drive=seed",
	}
}

// id is the guest's own, as clouds write it.
func (g *Guest) id() string {
	sum := sha256.Sum256([]byte(g.name))
	return "i-" + hex.EncodeToString(sum[:])[:17]
}

// ec2Metadata answers as EC2 does where IMDSv2 is required.
func ec2Metadata(s Server) http.Handler {
	const token = "QVFBQUFB"
	meta := map[string]string{
		"instance-id": s.ID, "hostname": s.Name, "local-hostname": s.Name, "ami-id": "ami-1", "instance-type": "t3.medium",
		"local-ipv4": "10.0.2.15", "placement/availability-zone": "eu-west-1a", "placement/region": "eu-west-1",
	}
	identity, _ := json.Marshal(map[string]string{"instanceId": meta["instance-id"], "region": "eu-west-1"})
	files := map[string][]byte{"user-data": s.UserData, "dynamic/instance-identity/document": identity}
	for key, value := range meta {
		files["meta-data/"+key] = []byte(value)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /latest/api/token", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", r.Header.Get("X-Aws-Ec2-Metadata-Token-Ttl-Seconds"))
		_, _ = w.Write([]byte(token))
	})
	mux.HandleFunc("GET /{version}/{path...}", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Aws-Ec2-Metadata-Token") != token {
			http.Error(w, "a token is required", http.StatusUnauthorized)
			return
		}
		list(w, files, r.PathValue("path"))
	})
	return mux
}

// novaMetadata answers as Nova's metadata service does.
func novaMetadata(s Server) http.Handler {
	meta, _ := json.Marshal(map[string]any{
		"uuid": s.ID, "name": s.Name, "hostname": s.Name + ".novalocal",
		"availability_zone": "nova", "launch_index": 0, "public_keys": map[string]string{},
	})
	files := map[string][]byte{
		"latest/meta_data.json": meta, "latest/user_data": s.UserData, "latest/vendor_data.json": []byte("{}"),
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /openstack/{path...}", func(w http.ResponseWriter, r *http.Request) {
		list(w, files, r.PathValue("path"))
	})
	return mux
}

// list answers with a file, or with the names in a folder, one on each line; those of folders
// end in a slash.
func list(w http.ResponseWriter, files map[string][]byte, path string) {
	if content, found := files[path]; found {
		_, _ = w.Write(content)
		return
	}
	below := map[string]bool{}
	for name := range files {
		rest, inside := strings.CutPrefix(name, strings.TrimSuffix(path, "/")+"/")
		if path == "" {
			rest, inside = name, true
		}
		if first, _, more := strings.Cut(rest, "/"); inside {
			if more {
				first += "/"
			}
			below[first] = true
		}
	}
	if len(below) == 0 {
		http.Error(w, "not found", http.StatusNotFound)
		return
	}
	_, _ = io.WriteString(w, strings.Join(slices.Sorted(maps.Keys(below)), "\n"))
}
