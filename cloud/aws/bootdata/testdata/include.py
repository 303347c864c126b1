# Prints what cloud-init makes of the user data in file argv[1] at one boot: a line of type
# and content in base64 for each part. argv[2] is what it keeps from boot to boot.
import base64
import os
import sys
import time

from cloudinit import helpers, user_data

time.sleep = lambda _: None  # retries wait
os.makedirs(os.path.join(sys.argv[2], "instance", "data"), exist_ok=True)
paths = helpers.Paths({"cloud_dir": sys.argv[2], "templates_dir": "/nonexistent"})
with open(sys.argv[1], "rb") as f:
    message = user_data.UserDataProcessor(paths).process(f.read())
for part in message.walk():
    if not user_data.is_skippable(part):
        payload = user_data.util.fully_decoded_payload(part)
        print(part.get_content_type(), base64.b64encode(payload.encode()).decode())
