// The plain part of the conformance server: tools that answer at once, prompts, resources.

import { text } from '../lib/catalogue.mjs';

const RED_PIXEL_PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg==';
const SILENCE_WAV = 'UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=';

const image = { type: 'image', data: RED_PIXEL_PNG, mimeType: 'image/png' };

export const plainTools = {
  // First in the list: the header scenario calls whatever comes first with `{}` and wants a result.
  test_simple_text: {
    description: 'Answers one line of text',
    call: () => text('This is a simple text response for testing.'),
  },
  test_image_content: {
    description: 'Answers an image',
    call: () => ({ content: [image] }),
  },
  test_audio_content: {
    description: 'Answers a sound',
    call: () => ({ content: [{ type: 'audio', data: SILENCE_WAV, mimeType: 'audio/wav' }] }),
  },
  test_embedded_resource: {
    description: 'Answers an embedded resource',
    call: () => ({ content: [embedded('test://embedded-resource', 'text/plain', 'This is an embedded resource content.')] }),
  },
  test_multiple_content_types: {
    description: 'Answers text, an image and a resource together',
    call: () => ({
      content: [
        { type: 'text', text: 'Multiple content types test:' },
        image,
        embedded('test://mixed-content-resource', 'application/json', '{"test":"data","value":123}'),
      ],
    }),
  },
  test_error_handling: {
    description: 'Always fails',
    call: () => ({ ...text('This tool intentionally returns an error for testing'), isError: true }),
  },
  test_custom_header: {
    description: 'Takes a parameter that is mirrored in a header',
    inputSchema: {
      type: 'object',
      properties: { region: { type: 'string', 'x-mcp-header': 'Region' } },
    },
    call: ({ region }) => text(`Region: ${region ?? 'none'}`),
  },
  json_schema_2020_12_tool: {
    description: 'Tool with JSON Schema 2020-12 features',
    inputSchema: {
      $schema: 'https://json-schema.org/draft/2020-12/schema',
      type: 'object',
      $defs: {
        address: {
          $anchor: 'addressDef',
          type: 'object',
          properties: { street: { type: 'string' }, city: { type: 'string' } },
        },
      },
      properties: {
        name: { type: 'string' },
        address: { $ref: '#/$defs/address' },
        contactMethod: { type: 'string', enum: ['phone', 'email'] },
        phone: { type: 'string' },
        email: { type: 'string' },
      },
      allOf: [{ anyOf: [{ required: ['phone'] }, { required: ['email'] }] }],
      if: { properties: { contactMethod: { const: 'phone' } }, required: ['contactMethod'] },
      then: { required: ['phone'] },
      else: { required: ['email'] },
      additionalProperties: false,
    },
    call: (args) => text(JSON.stringify(args)),
  },
};

export const plainPrompts = {
  test_simple_prompt: {
    description: 'A prompt without arguments',
    get: () => ({ messages: [user({ type: 'text', text: 'This is a simple prompt for testing.' })] }),
  },
  test_prompt_with_arguments: {
    description: 'A prompt with two arguments',
    arguments: [
      { name: 'arg1', description: 'First test argument', required: true },
      { name: 'arg2', description: 'Second test argument', required: true },
    ],
    get: ({ arg1, arg2 }) => ({
      messages: [user({ type: 'text', text: `Prompt with arguments: arg1='${arg1}', arg2='${arg2}'` })],
    }),
  },
  test_prompt_with_embedded_resource: {
    description: 'A prompt that embeds a resource',
    arguments: [{ name: 'resourceUri', description: 'URI of the resource to embed', required: true }],
    get: ({ resourceUri }) => ({
      messages: [
        user(embedded(resourceUri, 'text/plain', 'Embedded resource content for testing.')),
        user({ type: 'text', text: 'Please process the embedded resource above.' }),
      ],
    }),
  },
  test_prompt_with_image: {
    description: 'A prompt that holds an image',
    get: () => ({ messages: [user(image), user({ type: 'text', text: 'Please analyze the image above.' })] }),
  },
};

export const plainResources = {
  list: [
    { uri: 'test://static-text', name: 'Static text', description: 'A fixed text', mimeType: 'text/plain' },
    { uri: 'test://static-binary', name: 'Static binary', description: 'A fixed image', mimeType: 'image/png' },
    { uri: 'test://watched-resource', name: 'Watched', description: 'A text that may be subscribed to', mimeType: 'text/plain' },
  ],
  templates: [
    {
      uriTemplate: 'test://template/{id}/data',
      name: 'Template',
      description: 'Substitutes its parameter',
      mimeType: 'application/json',
    },
  ],
  read(uri) {
    if (uri === 'test://static-text') return [{ uri, mimeType: 'text/plain', text: 'This is the content of the static text resource.' }];
    if (uri === 'test://static-binary') return [{ uri, mimeType: 'image/png', blob: RED_PIXEL_PNG }];
    if (uri === 'test://watched-resource') return [{ uri, mimeType: 'text/plain', text: 'Watched resource content.' }];
    const id = /^test:\/\/template\/([^/]+)\/data$/.exec(uri)?.[1];
    if (id === undefined) return undefined;
    const data = { id, templateTest: true, data: `Data for ID: ${id}` };
    return [{ uri, mimeType: 'application/json', text: JSON.stringify(data) }];
  },
};

export function complete(_ref, argument) {
  return ['paris', 'park', 'party', 'testing'].filter((word) => word.startsWith(argument.value.slice(0, 3)));
}

function embedded(uri, mimeType, words) {
  return { type: 'resource', resource: { uri, mimeType, text: words } };
}

function user(content) {
  return { role: 'user', content };
}
