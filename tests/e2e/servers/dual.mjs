// The kit in both eras on one endpoint (or the one that `--era` names), over HTTP or stdio.

import { flags, serve } from './lib/front.mjs';
import { kitServer } from './lib/kit-server.mjs';

await serve(kitServer('kit-dual'), flags());
