"""serve.py keystone|placement PORT: one of OpenStack's WSGI applications."""
import sys

import waitress

which, port = sys.argv[1], int(sys.argv[2])
sys.argv = sys.argv[:1]
if which == 'keystone':
    from keystone.server import wsgi
    application = wsgi.initialize_public_application()
else:
    from placement import wsgi
    application = wsgi.init_application()
waitress.serve(application, host='127.0.0.1', port=port, threads=8, ident=None)
